//! The program that is started as the server.

use std::path::PathBuf;

/// The variable that names the server program of all tests.
const VARIABLE: &str = "REENTRY_SERVER";

/// The server program: the one that `REENTRY_SERVER` names, or that of this machine. The latter is Redis, or Valkey,
/// which uses the same protocol.
///
/// # Panics
///
/// Panics if the file that the variable names does not exist. Without the variable, panics with the command that
/// installs a server if the machine has none.
pub fn program() -> PathBuf {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let path = PathBuf::from(named);
        let place = path.display();
        assert!(path.is_file(), "{VARIABLE} names {place}, which is no file");
        return path;
    }
    ["redis-server", "valkey-server"]
        .into_iter()
        .find_map(find)
        .unwrap_or_else(|| panic!("no redis-server on this machine; {}", remedy()))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

fn remedy() -> String {
    let by_hand = [
        ("apt-get", "sudo apt-get install redis-server"),
        ("dnf", "sudo dnf install redis"),
        ("yum", "sudo yum install redis"),
        ("apk", "sudo apk add redis"),
        ("pacman", "sudo pacman -S valkey"),
        ("zypper", "sudo zypper install redis"),
        ("brew", "brew install redis"),
    ];
    let command = by_hand.iter().find(|(manager, _)| find(manager).is_some());
    let command = command.map_or("install Redis 6.2 or later", |(_, command)| command);
    format!("run `{command}`, or `cargo xtask test`, which does it for you")
}
