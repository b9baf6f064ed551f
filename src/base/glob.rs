//! Patterns of keys, as [`SCAN`](https://redis.io/docs/latest/commands/keys/) reads them.

/// Returns the pattern of all keys that begin with `prefix`, taken literally, and continue as `pattern` specifies.
pub(crate) fn after_prefix(prefix: &str, pattern: &str) -> String {
    escape(prefix) + pattern
}

/// Returns the pattern that only `text` matches.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// Returns whether a text matches a pattern. The result is the same as on the server, which compares bytes.
///
/// The search goes back only to the last `*`, so the number of steps is bounded by the product of both lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut pattern_at) = (0, 0);
    // The position after the last `*`, and the position in the text up to which this `*` matches at least.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = pattern.get(pattern_at..).unwrap_or_default();
        let matched = match (rest, text.get(at)) {
            ([b'*', ..], _) => {
                pattern_at += 1;
                star = Some((pattern_at, at));
                continue;
            }
            ([], None) => return true,
            ([], Some(_)) | (_, None) => None,
            (rest, Some(&byte)) => one(rest, byte),
        };
        match (matched, star) {
            (Some(length), _) => {
                pattern_at += length;
                at += 1;
            }
            (None, Some((behind, from))) if from < text.len() => {
                pattern_at = behind;
                at = from + 1;
                star = Some((behind, at));
            }
            (None, _) => return false,
        }
    }
}

/// Returns the length of the part of the pattern that matches `byte`, if it matches.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let (length, is_in) = class(rest, byte);
            is_in.then_some(1 + length)
        }
        [b'\\', letter, ..] => (*letter == byte).then_some(2),
        [letter, ..] => (*letter == byte).then_some(1),
        [] => None,
    }
}

/// Returns the length of a class after its opening bracket, including the closing one, and whether `byte` is in the
/// class. A class without a closing bracket ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> (usize, bool) {
    let is_negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    loop {
        match pattern.get(at..).unwrap_or_default() {
            [] => return (at, is_in != is_negated),
            [b']', ..] => return (at + 1, is_in != is_negated),
            [b'\\', letter, ..] => {
                is_in |= *letter == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                let (least, most) = (first.min(last), first.max(last));
                is_in |= (least..=most).contains(&&byte);
                at += 3;
            }
            [letter, ..] => {
                is_in |= *letter == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every store gives the same result, as tests/contract/survey.rs shows.
    #[test]
    fn a_pattern_matches_as_on_the_server() {
        for (pattern, text, does) in [
            ("*", "", true),
            ("order:*", "order:42", true),
            ("order:*", "orders:42", false),
            ("*:42", "order:142:42", true),
            ("o*r:?2", "order:42", true),
            ("o*r:?2", "order:2", false),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[\\]]", "]", true),
            ("[ab", "a", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a\\", "a\\", true),
            ("a*b*c*d", "a_b_c_b_c_d", true),
        ] {
            let matched = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(matched, does, "{pattern} {text}");
        }
    }

    #[test]
    fn a_prefix_stands_for_itself() {
        let prefix = "a*b?[c]\\d^-";
        let pattern = after_prefix(prefix, "*");
        assert!(matches(
            pattern.as_bytes(),
            format!("{prefix}42").as_bytes()
        ));
        assert!(!matches(pattern.as_bytes(), b"aXbYcd^-42"));
    }

    #[test]
    fn many_stars_cost_no_more_than_one() {
        let pattern = "a*".repeat(500) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5_000).as_bytes()));
    }
}
