//! The output: text for a person, or JSON.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::args::Global;
use crate::text::json;

/// Prints a value on standard output: as its `Display` text, or with `--json` as one line of JSON.
///
/// # Errors
///
/// The error of the write.
pub(crate) fn print(global: &Global, value: &(impl Display + Serialize)) -> io::Result<()> {
    let text = match global.json {
        true => json(value)?,
        false => value.to_string(),
    };
    let text = text.trim_end_matches('\n');
    write(format!("{text}\n").as_bytes())
}

/// The number of cells in a line of the terminal, if standard output is one.
pub(crate) fn width() -> Option<usize> {
    #[cfg(unix)]
    let size = rustix::termios::tcgetwinsize(io::stdout());
    #[cfg(unix)]
    return size
        .ok()
        .map(|size| size.ws_col.into())
        .filter(|&it| it > 0);
    #[cfg(not(unix))]
    None
}

/// Writes to standard output. A reader that closes the pipe early, such as `head`, causes no error.
///
/// # Errors
///
/// The error of the write.
pub(crate) fn write(text: &[u8]) -> io::Result<()> {
    let mut output = anstream::stdout().lock();
    match output.write_all(text).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
