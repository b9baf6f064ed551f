//! The locks of all primaries, page by page, with `SCAN`.

use std::collections::HashSet;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{AT_ONCE, Inspector, ask};
use crate::servers::accepted;
use crate::view::LockView;

/// The number of keys that a page examines. A current server needs less than a millisecond for it.
const PAGE: u32 = 100;

/// The beginning and the end of a scan.
const ENDS: &str = "0";

/// The locks whose keys match one of several patterns. For each of them all keys are scanned.
///
/// A lock that is held the whole time is listed at least once, unless it moves to another server meanwhile. A lock may
/// be listed twice, on different pages.
pub(crate) struct List<'a> {
    inspector: &'a Inspector,
    /// The patterns of the keys, with the prefix.
    patterns: Vec<String>,
    /// The number of complete scans, each of a primary for a pattern.
    done: usize,
    /// The place on the present primary.
    cursor: String,
    /// The number of its keys, if it is known.
    keys: Option<u64>,
    seen: u64,
    unnamed: u64,
    /// The locks that were listed, where another pattern may match them too.
    listed: HashSet<String>,
}

impl Inspector {
    /// Lists the locks whose keys match one of these patterns. Nothing is sent before the first page.
    pub(crate) fn list(&self, patterns: &[String]) -> List<'_> {
        let prefix = escaped(&self.global.prefix);
        let patterns = patterns.iter().map(|pattern| format!("{prefix}{pattern}"));
        List {
            inspector: self,
            patterns: patterns.collect(),
            done: 0,
            cursor: ENDS.to_owned(),
            keys: None,
            seen: 0,
            unnamed: 0,
            listed: HashSet::new(),
        }
    }
}

impl List<'_> {
    /// Returns the next page, or `None` after the last one. A page may be empty although others follow.
    ///
    /// # Errors
    ///
    /// [`Unreachable`](crate::servers::Unreachable) if a server does not respond, and a response that is an error. The
    /// place in the list is valid only on the same server, so the list cannot be continued.
    pub(crate) async fn next_page(&mut self) -> anyhow::Result<Option<Vec<LockView>>> {
        let primaries = &self.inspector.primaries;
        let Some(pattern) = self.patterns.get(self.done / primaries.len()) else {
            return Ok(None);
        };
        let server = &primaries[self.done % primaries.len()];
        if self.cursor == ENDS {
            // The user may not be allowed to read the number of keys.
            self.keys = ask(server, &["DBSIZE"]).await?.ok();
            self.seen = 0;
        }
        let count = PAGE.to_string();
        let scan = [
            "SCAN",
            &self.cursor,
            "MATCH",
            pattern,
            "COUNT",
            &count,
            "TYPE",
            "hash",
        ];
        let (cursor, names): (String, Vec<Vec<u8>>) = accepted(ask(server, &scan).await?)?;
        let (count, prefix) = (names.len(), &self.inspector.global.prefix);
        let names = names
            .into_iter()
            .filter_map(|it| String::from_utf8(it).ok());
        let names: Vec<_> = names.collect();
        let unnamed = (count - names.len()) as u64;
        // A name may also occur twice within one page.
        let keys = names.iter().filter_map(|it| it.strip_prefix(&**prefix));
        let keys: HashSet<_> = keys.map(str::to_owned).collect();
        let found = stream::iter(keys).map(|key| self.inspector.found(server, key));
        let found: Vec<_> = found.buffered(AT_ONCE).try_collect().await?;
        let found = found.into_iter().flatten().collect();
        let mut page = self.inspector.inspected(found).await?;
        if self.patterns.len() > 1 {
            page.retain(|lock| self.listed.insert(lock.key.clone()));
        }
        self.seen += u64::from(PAGE);
        self.unnamed += unnamed;
        self.done += usize::from(cursor == ENDS);
        self.cursor = cursor;
        Ok(Some(page))
    }

    /// Returns the part of all keys that the pages have examined so far, from 0 to 1. It is an estimate, and exactly 1
    /// at the end.
    pub(crate) fn progress(&self) -> f64 {
        let here = match self.keys {
            Some(keys @ 1..) if self.cursor != ENDS => (self.seen as f64 / keys as f64).min(0.99),
            _ => 0.0,
        };
        (self.done as f64 + here) / (self.patterns.len() * self.inspector.primaries.len()) as f64
    }

    /// Returns the number of hashes that the pages have omitted so far because their keys are not UTF-8.
    pub(crate) fn unnamed(&self) -> u64 {
        self.unnamed
    }
}

/// The pattern that only this text matches.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_prefix_are_escaped_in_a_pattern() {
        assert_eq!(escaped("a*b?[c]\\d^-:"), "a\\*b\\?\\[c\\]\\\\d^-:");
    }
}
