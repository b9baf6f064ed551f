//! Finds the end of a placeholder in a key template.
//!
//! The expression of a placeholder is Rust code, and may contain braces, strings and colons. So the scan that finds its
//! end recognizes brackets, strings, characters and lifetimes, and nothing else of Rust.

/// The offsets of the end of a placeholder's expression, and of its closing brace.
pub(crate) struct End {
    pub(crate) code: usize,
    pub(crate) brace: usize,
}

/// Finds the end of the placeholder that begins at `at`.
///
/// An expression with a value that can be printed contains no single `:` outside brackets. So the first one begins the
/// format spec.
pub(crate) fn scan(text: &str, mut at: usize) -> Option<End> {
    let bytes = text.as_bytes();
    let mut nested = Vec::new();
    loop {
        let next = bytes.get(at + 1).copied();
        match *bytes.get(at)? {
            b'}' if nested.is_empty() => {
                return Some(End {
                    code: at,
                    brace: at,
                });
            }
            b':' if nested.is_empty() && next != Some(b':') => {
                let brace = at + text[at..].find('}')?;
                return Some(End { code: at, brace });
            }
            b':' if next == Some(b':') => at += 2,
            b'"' => at = string_end(bytes, at)?,
            b'r' if !follows_word(bytes, at) => at = raw_string_end(text, at)?,
            b'\'' => at = quote_end(text, at)?,
            b'(' => nested_in(&mut nested, b')', &mut at),
            b'[' => nested_in(&mut nested, b']', &mut at),
            b'{' => nested_in(&mut nested, b'}', &mut at),
            closer @ (b')' | b']' | b'}') => {
                if nested.pop() != Some(closer) {
                    return None;
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
}

fn nested_in(nested: &mut Vec<u8>, closer: u8, at: &mut usize) {
    nested.push(closer);
    *at += 1;
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| bytes.get(before));
    before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii())
}

/// The end of the string that opens at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1;
        match bytes.get(at)? {
            b'\\' => at += 1,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
}

/// The end of the raw string whose `r` is at `at`, or the offset after the `r` if there is no raw string.
fn raw_string_end(text: &str, at: usize) -> Option<usize> {
    let after = &text[at + 1..];
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    if !after[hashes..].starts_with('"') {
        return Some(at + 1);
    }
    let open = at + 1 + hashes + 1;
    let closer = format!("\"{}", &after[..hashes]);
    text[open..]
        .find(&closer)
        .map(|offset| open + offset + closer.len())
}

/// The end of the character literal that opens at `at`, or the offset after the quote if the quote begins a lifetime.
fn quote_end(text: &str, at: usize) -> Option<usize> {
    let inner = &text[at + 1..];
    let mut letters = inner.char_indices();
    let (_, first) = letters.next()?;
    let (after, second) = letters.next()?;
    if first == '\\' {
        let closing = inner[after + second.len_utf8()..].find('\'')?;
        return Some(at + 1 + after + second.len_utf8() + closing + 1);
    }
    Some(if second == '\'' {
        at + 1 + after + 1
    } else {
        at + 1
    })
}
