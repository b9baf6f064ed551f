//! The properties of all code that parses input: one function for each target in `fuzz/`. Each function takes the input
//! of a fuzzer. They are compiled only for the fuzz targets and for the tests.
//!
//! Mounted by `src/api/mod.rs`.

use ::redis::parse_redis_value;

use crate::api::builder::url::properties::url as read_url;
use crate::base::id;
use crate::store::redis;
use crate::store::verbs::properties;

/// Three lines: the prefix, the name of a lock, and the name of another lock.
pub fn key(text: &str) {
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    redis::key(line(), line(), line());
}

/// A hold id.
pub fn id(text: &str) {
    id::properties::hold_id(text);
}

/// A reply in the wire format.
pub fn reply(wire: &[u8]) {
    if let Ok(reply) = parse_redis_value(wire) {
        properties::reply(&reply);
    }
}

/// A message to an inbox.
pub fn message(text: &str) {
    properties::message(text);
}

/// A URL, whose secret is at the end of the first line.
pub fn url(text: &str) {
    let (before, after) = text.split_once('\n').unwrap_or((text, ""));
    read_url(before, after);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Reads every seed input of the fuzzers, and every input that they have found so far.
    fn each_of(target: &str, read: impl Fn(&[u8])) {
        // The manifest may be in a subfolder of the repository.
        let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let root = above.find(|folder| folder.join("fuzz/corpus").is_dir());
        let root = root.expect("the corpus, which the repository has");
        let folder = root.join("fuzz/corpus").join(target);
        let files = fs::read_dir(&folder).unwrap();
        let mut count = 0;
        for file in files {
            read(&fs::read(file.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "{} is empty", folder.display());
    }

    fn each_text_of(target: &str, read: fn(&str)) {
        each_of(target, |bytes| {
            if let Ok(text) = std::str::from_utf8(bytes) {
                read(text);
            }
        });
    }

    #[test]
    fn the_corpora_of_the_fuzzers_hold() {
        each_text_of("key", super::key);
        each_text_of("id", super::id);
        each_text_of("message", super::message);
        each_text_of("url", super::url);
        each_of("reply", super::reply);
    }
}
