//! Installs the programs that the tests start, with the package manager of the machine.

use crate::run::{installed, run};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A program that the tests start.
struct Needed {
    name: &'static str,
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

/// Postgres, which chaos also uses.
const POSTGRES: Needed = Needed {
    name: "postgres",
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

/// The databases that reject the writes of stale holders.
const DATABASES: [Needed; 3] = [
    POSTGRES,
    Needed {
        name: "mariadbd",
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
    },
    Needed {
        name: "sqlite3",
        programs: &["sqlite3"],
        service: "sqlite3",
        packages: [
            "sqlite3", "sqlite", "sqlite", "sqlite", "sqlite", "sqlite3", "sqlite",
        ],
    },
];

/// A package manager, and how it installs a package.
struct Manager {
    program: &'static str,
    /// The command lines. The package is added to the last one. All except those of Homebrew need root.
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
/// Every test starts its own server, so no service is needed. A service that the package starts is stopped again.
pub(crate) fn servers() -> Result<()> {
    redis()?;
    install(&PROMETHEUS)?;
    DATABASES.iter().try_for_each(install)
}

/// Installs Postgres, unless the machine has it.
pub(crate) fn postgres() -> Result<()> {
    install(&POSTGRES)
}

/// Installs redis-server, unless the machine has one or `REENTRY_SERVER` names one.
pub(crate) fn redis() -> Result<()> {
    match std::env::var_os("REENTRY_SERVER") {
        Some(_) => Ok(()),
        None => install(&REDIS),
    }
}

fn install(needed: &Needed) -> Result<()> {
    let Needed { name, programs, .. } = needed;
    let is_there = || {
        programs
            .iter()
            .any(|program| installed(program) || is_elsewhere(program))
    };
    if is_there() {
        return Ok(());
    }
    eprintln!("\n== installing {name}, which the tests start ==");
    let managers = MANAGERS.iter().zip(needed.packages);
    let Some((manager, package)) = managers
        .into_iter()
        .find(|(manager, _)| installed(manager.program))
    else {
        bail!(
            "no package manager found among {}: install {name} manually, so that it is on the PATH",
            MANAGERS.map(|manager| manager.program).join(", ")
        );
    };
    let lines = manager.lines(package);
    if manager.needs_root && !is_root() && !installed("sudo") {
        bail!("sudo is missing: run `{}` as root", lines.join(" && "));
    }
    let mut outcome = Ok(());
    for line in &lines {
        // Only the last command matters: an update that fails for one additional source has often done enough.
        outcome = run(&mut command(line, manager.needs_root));
    }
    outcome.with_context(|| format!("cannot install {name}"))?;
    if !is_there() {
        bail!(
            "`{}` succeeded, but {name} was not found",
            lines.join(" && ")
        );
    }
    stop_service(needed.service);
    Ok(())
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

impl Manager {
    /// The command lines that install a package.
    fn lines(&self, package: &str) -> Vec<String> {
        let mut lines: Vec<_> = self.commands.iter().map(ToString::to_string).collect();
        if let Some(last) = lines.last_mut() {
            *last = format!("{last} {package}");
        }
        lines
    }
}

/// The command line unchanged, or through sudo if it needs root and the user is not root.
fn command(line: &str, needs_root: bool) -> Command {
    if needs_root && !is_root() {
        let mut command = Command::new("sudo");
        command.args(line.split(' '));
        return command;
    }
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
    for line in &lines {
        if let Err(error) = run(&mut command(line, true)) {
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

    #[test]
    fn every_manager_is_called_by_its_name() {
        for manager in &MANAGERS {
            for line in manager.lines("package") {
                assert!(line.contains(manager.program), "{line}");
            }
            let last = manager.lines("package").pop();
            assert!(last.is_some_and(|line| line.ends_with(" package")));
        }
    }

    #[test]
    fn a_command_line_becomes_a_command() {
        let command = command("brew install redis", false);
        assert_eq!(command.get_program(), "brew");
        assert!(command.get_args().eq(["install", "redis"]));
    }
}
