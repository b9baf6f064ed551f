//! The configuration file of a server.

use std::path::Path;

/// The options of every server, before those of a test. `--save` has an empty argument.
const COMMON: &str = "--bind 127.0.0.1 --save  --appendonly no --daemonize no --supervised no";

/// The text of the file. If it contains an option twice, the later one counts.
pub fn text(dir: &Path, socket: &Path, listen: &[String], further: &[&str]) -> String {
    let (dir, socket) = (dir.to_str(), socket.to_str());
    let places = [
        "--dir",
        dir.expect(UTF_8),
        "--unixsocket",
        socket.expect(UTF_8),
    ];
    let listen = listen.iter().map(String::as_str);
    let words = COMMON.split(' ').chain(places).chain(listen);
    lines(words.chain(further.iter().copied()))
}

const UTF_8: &str = "a temporary folder whose path is UTF-8";

/// A word with two dashes names an option and begins a line. The words after it are its values.
fn lines<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let line = |word: &str| match word.strip_prefix("--") {
        Some(option) => format!("\n{option}"),
        None => format!(" {word:?}"),
    };
    words.map(line).collect::<String>() + "\n"
}
