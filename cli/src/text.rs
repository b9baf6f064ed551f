//! Text of other programs on a terminal: its printable form, and the number of cells that it takes.

use std::borrow::Cow;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::secrets::masked;

/// A text of another program, without control characters for the terminal, without invisible characters, and without
/// secrets of addresses.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let escape = |letter: char, printable: &mut String| printable.extend(letter.escape_unicode());
    match masked(text) {
        Cow::Borrowed(text) => escaped(text, escape),
        Cow::Owned(text) => Cow::Owned(escaped(&text, escape).into_owned()),
    }
}

/// A line of JSON that is safe to show on a terminal. Programs read equal values from it.
///
/// # Errors
///
/// The error of the serialisation.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(value)?;
    // JSON has such characters only inside strings.
    let text = masked(&text);
    let escaped = escaped(&text, |letter, json| {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            json.push_str(&format!("\\u{unit:04x}"));
        }
    });
    Ok(escaped.into_owned())
}

/// The number of terminal cells that a printable text takes.
pub(crate) fn cells(text: &str) -> usize {
    text.width()
}

/// A printable text, filled with spaces up to a number of cells.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(cells(text));
    format!("{text}{:missing$}", "")
}

/// The beginning of a printable text that fits into a number of cells.
pub(crate) fn cut(text: &str, width: usize) -> &str {
    let ends = text
        .char_indices()
        .map(|(at, letter)| at + letter.len_utf8());
    // A further character never makes a text narrower, so the rest of a long one is not measured.
    let end = ends.take_while(|&end| cells(&text[..end]) <= width).last();
    &text[..end.unwrap_or(0)]
}

/// A printable text that shows where a part of it is missing.
pub(crate) fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    match cells(text) <= width {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("{}…", cut(text, width.saturating_sub(1)))),
    }
}

/// A number of things, with the plural that most nouns have.
pub(crate) fn count(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// The text, with another form of each character that must not be shown unchanged.
fn escaped(text: &str, form: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_hidden(letter) {
            form(letter, &mut escaped);
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

/// Whether a terminal would obey a character or not show it, so that two keys look alike.
fn is_hidden(letter: char) -> bool {
    // Line separators, direction marks, and the others with the property Default_Ignorable_Code_Point.
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_send_control_sequences_to_the_terminal() {
        assert_eq!(printable("order:42 ä"), "order:42 ä");
        assert_eq!(
            printable("a\u{1b}[2Jb\n\u{202e}\u{9b}"),
            "a\\u{1b}[2Jb\\u{a}\\u{202e}\\u{9b}"
        );
    }

    #[test]
    fn an_invisible_character_is_shown_as_its_code() {
        assert_eq!(
            printable("or\u{200b}der\u{ad}:42\u{feff}"),
            "or\\u{200b}der\\u{ad}:42\\u{feff}"
        );
        // An accent belongs to the character before it.
        assert_eq!(printable("cafe\u{301}"), "cafe\u{301}");
    }

    #[test]
    fn a_key_in_json_is_ascii_and_is_read_back_unchanged() {
        let text = "a\u{9b}2J\u{202e}\u{e0041}\u{7f}";
        let json = json(&text).unwrap();
        assert!(json.is_ascii() && !json.contains('\u{7f}'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn a_column_counts_cells() {
        for (text, taken) in [
            ("order", 5),
            ("注文", 4),
            ("cafe\u{301}", 4),
            ("🔒👍🏽", 4),
            ("a\u{1b}", 6 + 1),
        ] {
            let text = printable(text);
            assert_eq!(cells(&text), taken, "{text}");
            assert_eq!(cells(&padded(&text, 8)), 8, "{text}");
        }
    }

    #[test]
    fn a_truncated_text_has_the_maximum_length() {
        for (text, width, expected) in [
            ("注文", 3, "注"),
            ("🔒🔒", 4, "🔒🔒"),
            ("cafe\u{301}s", 4, "cafe\u{301}"),
            ("\u{301}", 0, "\u{301}"),
            ("a", 0, ""),
        ] {
            assert_eq!(cut(text, width), expected);
        }
        for (width, expected) in [(8, "order:42"), (7, "order:…"), (1, "…")] {
            assert_eq!(shortened("order:42", width), expected);
        }
        // A character of two cells that would be cut in half is left out.
        assert_eq!(shortened("注文書", 4), "注…");
    }
}
