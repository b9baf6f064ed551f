//! What everything that is read must satisfy, one function for each target in `fuzz/`, in the shape
//! in which a fuzzer hands over its input. Compiled for them and for the tests alone.

use ::redis::parse_redis_value;

use crate::{
    base::id,
    store::{redis, verbs::properties},
};

/// Lines: the prefix, the name of a lock, and the name of another one.
pub fn key(text: &str) {
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    redis::key(line(), line(), line());
}

/// A hold id.
pub fn id(text: &str) {
    id::properties::hold_id(text);
}

/// A reply as it comes over the wire.
pub fn reply(wire: &[u8]) {
    if let Ok(reply) = parse_redis_value(wire) {
        properties::reply(&reply);
    }
}

/// A message to an inbox.
pub fn message(text: &str) {
    properties::message(text);
}

/// A URL; the place of its secret is the end of the first line.
pub fn url(text: &str) {
    let (before, after) = text.split_once('\n').unwrap_or((text, ""));
    redis::url(before, after);
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// Every input that the fuzzers begin with, and every one that they have ever found.
    fn each_of(target: &str, read: impl Fn(&[u8])) {
        // The manifest may be that of a folder of the repository.
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
