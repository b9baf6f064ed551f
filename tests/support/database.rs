//! A database server: Postgres or MariaDB.

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use rustix::process::geteuid;
use tempfile::TempDir;

use super::wait::{DEADLINE, eventually};

/// The user that runs Postgres if root runs the tests, because Postgres rejects root: `nobody`.
const NOBODY: u32 = 65_534;

/// The start of a server. `$0` is its folder, `$1` is the signal that ends it immediately, and the rest is its command
/// line. The input ends when the test process does, in whatever way.
const TETHER: &str = r#"trap "" INT TERM HUP
signal=$1; shift
"$@" </dev/null >"$0/log" 2>&1 &
read -r _
kill "-$signal" $!; wait $!; rm -rf -- "$0""#;

/// A server that is reached through a socket in its folder. It ends with the test process.
#[derive(Debug)]
pub struct DatabaseServer {
    folder: PathBuf,
    /// The folder of the socket.
    place: PathBuf,
    /// The line that the server prints when it is ready.
    up: &'static str,
    // Its open input keeps the server alive.
    _tether: Child,
}

impl DatabaseServer {
    pub fn postgres() -> Self {
        let folder = folder();
        let data = folder.join("data");
        fs::create_dir(&data).unwrap();
        if geteuid().is_root() {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o711)).unwrap();
            chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut initdb = as_nobody(&program("initdb"));
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--pgdata",
        ]);
        let made = initdb.arg(&data).output().unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "initdb: {said}");
        let mut server = as_nobody(&program("postgres"));
        // The shared memory in files is removed with the folder.
        let options = [
            "listen_addresses=",
            "fsync=off",
            "shared_buffers=16MB",
            "dynamic_shared_memory_type=mmap",
        ];
        server.arg("-D").arg(&data).arg("-k").arg(&data);
        server.args(options.iter().flat_map(|option| ["-c", option]));
        let tether = tether(&server, "QUIT", &folder);
        Self {
            folder,
            place: data,
            up: "ready to accept connections",
            _tether: tether,
        }
    }

    pub fn mariadb() -> Self {
        let folder = folder();
        let mut server = Command::new(program("mariadbd"));
        // It has no system tables, because no test needs them and their creation takes seconds.
        server.args(["--no-defaults", "--skip-grant-tables", "--skip-networking"]);
        server.args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M"]);
        server.args([
            "--innodb-flush-log-at-trx-commit=0",
            "--skip-innodb-doublewrite",
            // If this option is on, a snapshot that is too old is an error.
            "--loose-innodb-snapshot-isolation=OFF",
        ]);
        for (option, name) in [
            ("datadir", "."),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("tmpdir", "."),
        ] {
            server.arg(format!("--{option}={}", folder.join(name).display()));
        }
        if geteuid().is_root() {
            server.arg("--user=root");
        }
        let tether = tether(&server, "KILL", &folder);
        Self {
            place: folder.clone(),
            folder,
            up: "ready for connections",
            _tether: tether,
        }
    }

    /// The folder of the socket.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The server, as soon as it accepts connections.
    pub async fn up(self) -> Self {
        let is_up = async || self.is_up();
        eventually(DEADLINE, "the database is up", is_up).await;
        self
    }

    fn is_up(&self) -> bool {
        let log = fs::read_to_string(self.folder.join("log"));
        log.is_ok_and(|log| log.contains(self.up))
    }
}

/// Starts a server, and the shell that ends it.
fn tether(server: &Command, signal: &str, folder: &Path) -> Child {
    let tether = Command::new("sh")
        .args(["-c", TETHER])
        .arg(folder)
        .arg(signal)
        .arg(server.get_program())
        .args(server.get_args())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    tether.expect("a shell")
}

/// A folder that the tether removes.
fn folder() -> PathBuf {
    let folder = TempDir::with_prefix("reentry-").expect("a temporary folder");
    folder.keep()
}

/// The command, which another user runs if this one is root.
fn as_nobody(program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
    command.arg("--clear-groups").arg(program);
    command
}

/// The path of a program of a database.
///
/// # Panics
///
/// Panics with the command that installs it if the machine does not have it.
pub fn program(name: &str) -> PathBuf {
    let mut folders: Vec<_> = versions("/usr/lib/postgresql");
    folders.push("/usr/local/pgsql/bin".into());
    let path = env::var_os("PATH");
    folders.extend(env::split_paths(path.as_deref().unwrap_or(OsStr::new(""))));
    folders.push("/usr/sbin".into());
    let mut candidates = folders.into_iter().map(|folder| folder.join(name));
    candidates.find(|file| file.is_file()).unwrap_or_else(|| {
        panic!(
            "no {name} on this machine; run `apt-get install postgresql mariadb-server sqlite3`, \
             or `cargo xtask test`, which installs what is missing"
        )
    })
}

/// The folders with the programs of all installed versions of Postgres on Debian, which are not in the PATH.
fn versions(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    folders
}
