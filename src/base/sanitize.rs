//! Texts that others may have written, in the form in which messages contain them. They give no orders to a terminal.

use std::error::Error;
use std::fmt::{self, Display, Write};

#[cfg(test)]
#[path = "../../tests/mounted/properties/shown.rs"]
mod properties;

/// A text in a message. Its control characters, and its marks that change the direction of a text, become U+FFFD.
#[derive(Debug)]
pub(crate) struct Sanitized<T>(pub(crate) T);

impl<T: Display> Display for Sanitized<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let mut letters = text.chars().map(sanitize_char);
        letters.try_for_each(|letter| f.write_char(letter))
    }
}

/// An error whose message may quote others, for example a server.
impl Error for Sanitized<Box<dyn Error + Send + Sync>> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// A character in the form in which messages contain it.
pub(crate) fn sanitize_char(letter: char) -> char {
    if letter.is_control() || is_mark(letter) {
        char::REPLACEMENT_CHARACTER
    } else {
        letter
    }
}

/// Whether a character changes the direction or the lines of the text around it.
fn is_mark(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
