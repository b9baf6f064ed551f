//! Installs the programs that the tests start, with one call of the package manager of the machine.

use crate::run::{installed, run};
use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A program that the tests start.
struct Needed {
    name: &'static str,
    /// The tests that start it.
    tests: &'static str,
    /// The names of the program. One of them is enough.
    programs: &'static [&'static str],
    /// The service that its package may start.
    service: &'static str,
    /// The package, in the order of [`MANAGERS`].
    packages: [&'static str; MANAGERS.len()],
}

/// The server. Valkey speaks the same protocol.
const REDIS: Needed = Needed {
    name: "redis-server",
    tests: "all tests on a real server",
    programs: &["redis-server", "valkey-server"],
    service: "redis-server",
    packages: [
        "redis-server",
        "redis",
        "redis",
        "redis",
        "valkey",
        "redis",
        "redis",
    ],
};

/// Prometheus, which scrapes the metrics of the tests, and checks the rules for alerts.
const PROMETHEUS: Needed = Needed {
    name: "prometheus",
    tests: "the suite `seen`, which checks the metrics and the alerts",
    programs: &["promtool"],
    service: "prometheus",
    packages: [
        "prometheus",
        "golang-github-prometheus",
        "golang-github-prometheus",
        "prometheus",
        "prometheus",
        "golang-github-prometheus-prometheus",
        "prometheus",
    ],
};

/// Postgres, which rejects the writes of stale holders, as the two databases below do.
const POSTGRES: Needed = Needed {
    name: "postgres",
    tests: "`fence` in the suite `it`",
    programs: &["postgres"],
    service: "postgresql",
    packages: [
        "postgresql",
        "postgresql-server",
        "postgresql-server",
        "postgresql",
        "postgresql",
        "postgresql-server",
        "postgresql",
    ],
};

const MARIADB: Needed = Needed {
    name: "mariadbd",
    tests: "`fence` in the suite `it`",
    programs: &["mariadbd"],
    service: "mariadb",
    packages: [
        "mariadb-server",
        "mariadb-server",
        "mariadb-server",
        "mariadb",
        "mariadb",
        "mariadb",
        "mariadb",
    ],
};

const SQLITE: Needed = Needed {
    name: "sqlite3",
    tests: "`fence` in the suite `it`",
    programs: &["sqlite3"],
    service: "sqlite3",
    packages: [
        "sqlite3", "sqlite", "sqlite", "sqlite", "sqlite", "sqlite3", "sqlite",
    ],
};

/// A package manager, and how it installs packages.
struct Manager {
    program: &'static str,
    /// The command lines. The packages are added to the last one. All except those of Homebrew need root.
    commands: &'static [&'static str],
    needs_root: bool,
}

/// The package managers. The first that the machine has is used: dnf before yum, which on newer systems is a shim.
const MANAGERS: [Manager; 7] = [
    Manager {
        program: "apt-get",
        commands: &[
            "apt-get update",
            "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends",
        ],
        needs_root: true,
    },
    Manager {
        program: "dnf",
        commands: &["dnf install -y"],
        needs_root: true,
    },
    Manager {
        program: "yum",
        commands: &["yum install -y"],
        needs_root: true,
    },
    Manager {
        program: "apk",
        commands: &["apk add"],
        needs_root: true,
    },
    Manager {
        program: "pacman",
        commands: &["pacman -Sy --noconfirm"],
        needs_root: true,
    },
    Manager {
        program: "zypper",
        commands: &["zypper --non-interactive install"],
        needs_root: true,
    },
    Manager {
        program: "brew",
        commands: &["brew install"],
        needs_root: false,
    },
];

/// Installs the programs that the tests start, unless the machine has them.
///
/// Every test starts its own server, so no service is needed. A service that a package starts is stopped again.
pub(crate) fn for_tests() -> Result<()> {
    let others = [&PROMETHEUS, &POSTGRES, &MARIADB, &SQLITE];
    install(server().into_iter().chain(others))
}

/// Installs the server that chaos starts, unless the machine has it.
pub(crate) fn for_chaos() -> Result<()> {
    install(server().into_iter())
}

/// The server, unless `REENTRY_SERVER` names one.
fn server() -> Option<&'static Needed> {
    env::var_os("REENTRY_SERVER").is_none().then_some(&REDIS)
}

fn install(needed: impl Iterator<Item = &'static Needed>) -> Result<()> {
    let mut missing: Vec<_> = needed.filter(|it| !it.is_there()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("\n== missing: {} ==", names(&missing));
    for it in &missing {
        eprintln!("{}: for {}", it.name, it.tests);
    }
    let lines = lines(&missing, installed, is_root())?;
    let mut outcome = Ok(());
    for line in &lines {
        // Only the last command matters: an update that fails for one additional source has often done enough.
        outcome = run(&mut command(line));
    }
    let all = lines.join(" && ");
    let by_hand = || format!("install {} by hand: `{all}`", names(&missing));
    outcome.with_context(by_hand)?;
    missing.iter().for_each(|it| stop_service(it.service));
    missing.retain(|it| !it.is_there());
    ensure!(
        missing.is_empty(),
        "`{all}` succeeded, but these are still missing: {}",
        names(&missing)
    );
    Ok(())
}

/// The command lines that install all of `missing`, on a machine that has these programs.
fn lines(missing: &[&Needed], has: impl Fn(&str) -> bool, is_root: bool) -> Result<Vec<String>> {
    let Some(at) = MANAGERS.iter().position(|it| has(it.program)) else {
        bail!(
            "no package manager found among {}: install {} by hand, so that they are on the PATH",
            MANAGERS.map(|manager| manager.program).join(", "),
            names(missing)
        );
    };
    let manager = &MANAGERS[at];
    let packages: Vec<_> = missing.iter().map(|it| it.packages[at]).collect();
    let mut lines: Vec<_> = manager.commands.iter().map(ToString::to_string).collect();
    if let Some(last) = lines.last_mut() {
        *last = format!("{last} {}", packages.join(" "));
    }
    if !manager.needs_root || is_root {
        return Ok(lines);
    }
    ensure!(
        has("sudo"),
        "{} cannot be installed without sudo: run `{}` as root",
        names(missing),
        lines.join(" && ")
    );
    Ok(lines.iter().map(|line| format!("sudo {line}")).collect())
}

fn names(needed: &[&Needed]) -> String {
    let names: Vec<_> = needed.iter().map(|it| it.name).collect();
    names.join(", ")
}

impl Needed {
    /// Whether the machine has one of its programs.
    fn is_there(&self) -> bool {
        let is_there = |program: &&str| installed(program) || is_elsewhere(program);
        self.programs.iter().any(is_there)
    }
}

/// Whether a program is in a folder that is not on the PATH: the folder of a Postgres version on Debian, or of the
/// administrator.
fn is_elsewhere(program: &str) -> bool {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let mut folders = folders.chain(["/usr/local/pgsql/bin".into(), "/usr/sbin".into()]);
    folders.any(|folder| folder.join(program).is_file())
}

/// The command line as a command.
fn command(line: &str) -> Command {
    let (program, words) = line.split_once(' ').unwrap_or((line, ""));
    let mut command = Command::new(program);
    command.args(words.split(' '));
    command
}

/// Stops and disables the service that Debian starts on installation. No program was using it, since there was
/// no server before. Without a service, nothing happens.
fn stop_service(service: &str) {
    let script = Path::new("/etc/init.d").join(service);
    let lines = if Path::new("/run/systemd/system").is_dir() {
        vec![format!("systemctl disable --now {service}")]
    } else if script.exists() {
        vec![
            format!("service {service} stop"),
            format!("update-rc.d {service} disable"),
        ]
    } else {
        Vec::new()
    };
    let sudo = if is_root() { "" } else { "sudo " };
    for line in &lines {
        if let Err(error) = run(&mut command(&format!("{sudo}{line}"))) {
            eprintln!("the service {service} may still be running: {error:#}");
        }
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: [&Needed; 3] = [&REDIS, &POSTGRES, &SQLITE];
    const APT: [&str; 2] = [
        "apt-get update",
        "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server postgresql sqlite3",
    ];

    /// The lines for a machine with these programs, or the error.
    fn lines_with(programs: &[&str], is_root: bool) -> Result<Vec<String>, String> {
        let lines = lines(&MISSING, |program| programs.contains(&program), is_root);
        lines.map_err(|error| error.to_string())
    }

    #[test]
    fn one_call_installs_all_that_is_missing() {
        assert_eq!(lines_with(&["apt-get"], true).unwrap(), APT);
        let with_sudo = lines_with(&["apt-get", "sudo"], false).unwrap();
        assert_eq!(with_sudo, APT.map(|line| format!("sudo {line}")));
    }

    #[test]
    fn every_manager_gets_the_packages_by_its_own_names() {
        for manager in &MANAGERS {
            let lines = lines_with(&[manager.program, "sudo"], false).unwrap();
            assert_eq!(lines.len(), manager.commands.len());
            for line in &lines {
                assert!(line.contains(manager.program), "{line}");
                assert_eq!(line.starts_with("sudo "), manager.needs_root, "{line}");
            }
        }
        let dnf = lines_with(&["dnf", "yum"], true).unwrap();
        assert_eq!(dnf, ["dnf install -y redis postgresql-server sqlite"]);
        let brew = lines_with(&["brew"], false).unwrap();
        assert_eq!(brew, ["brew install redis postgresql sqlite"]);
    }

    #[test]
    fn without_rights_all_are_named_with_the_command_for_root() {
        let error = lines_with(&["apt-get"], false).unwrap_err();
        let by_hand = format!("run `{}` as root", APT.join(" && "));
        assert!(
            error.contains("redis-server, postgres, sqlite3 "),
            "{error}"
        );
        assert!(error.ends_with(&by_hand), "{error}");
    }

    #[test]
    fn without_a_package_manager_all_are_named() {
        let error = lines_with(&["sudo"], false).unwrap_err();
        assert!(
            error.contains("redis-server, postgres, sqlite3 "),
            "{error}"
        );
    }

    #[test]
    fn a_command_line_becomes_a_command() {
        let command = command("brew install redis sqlite");
        assert_eq!(command.get_program(), "brew");
        assert!(command.get_args().eq(["install", "redis", "sqlite"]));
    }
}
