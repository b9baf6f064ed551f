//! Installing redis-server with the machine's own package manager.

use crate::run::{installed, run};
use anyhow::{Context, Result, bail};
use std::process::Command;

/// What the tests can start; Valkey speaks the same.
const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];

/// How a package manager installs a server.
struct Manager {
    program: &'static str,
    /// One command line each; all but Homebrew's need root.
    commands: &'static [&'static str],
    needs_root: bool,
}

/// The first that the machine has is used: dnf before yum, which on newer systems is a shim.
const MANAGERS: [Manager; 7] = [
    Manager {
        program: "apt-get",
        commands: &[
            "apt-get update",
            "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server",
        ],
        needs_root: true,
    },
    Manager {
        program: "dnf",
        commands: &["dnf install -y redis"],
        needs_root: true,
    },
    Manager {
        program: "yum",
        commands: &["yum install -y redis"],
        needs_root: true,
    },
    Manager {
        program: "apk",
        commands: &["apk add redis"],
        needs_root: true,
    },
    Manager {
        program: "pacman",
        commands: &["pacman -Sy --noconfirm valkey"],
        needs_root: true,
    },
    Manager {
        program: "zypper",
        commands: &["zypper --non-interactive install redis"],
        needs_root: true,
    },
    Manager {
        program: "brew",
        commands: &["brew install redis"],
        needs_root: false,
    },
];

/// Installs redis-server, unless the machine has one or `REENTRY_SERVER` names one.
///
/// Every test starts a server of its own, so no service is needed, and the one that a package may
/// start is stopped again.
pub(crate) fn redis_server() -> Result<()> {
    if std::env::var_os("REENTRY_SERVER").is_some() || SERVERS.into_iter().any(installed) {
        return Ok(());
    }
    eprintln!("\n== installing redis-server, which the tests start ==");
    let Some(manager) = MANAGERS.iter().find(|manager| installed(manager.program)) else {
        bail!(
            "no package manager found among {}: install Redis 6.2 or later by hand, \
             so that `redis-server` is on the PATH",
            MANAGERS.map(|manager| manager.program).join(", ")
        );
    };
    if manager.needs_root && !is_root() && !installed("sudo") {
        bail!(
            "there is no sudo; as root, run `{}`",
            manager.commands.join(" && ")
        );
    }
    let mut outcome = Ok(());
    for line in manager.commands {
        // The last one counts: an update that stumbles over a foreign source has often done enough.
        outcome = run(&mut command(line, manager.needs_root));
    }
    outcome.context("redis-server could not be installed")?;
    if !SERVERS.into_iter().any(installed) {
        bail!(
            "`{}` has run, but there is no redis-server on the PATH",
            manager.commands.join(" && ")
        );
    }
    stop_service();
    Ok(())
}

/// The command line as it is, or through sudo if it needs root and we are not.
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

/// Debian starts and enables a service on installation. No program was using it, since there was
/// no server before; where there is no service, nothing happens.
fn stop_service() {
    let lines: &[&str] = if std::path::Path::new("/run/systemd/system").is_dir() {
        &["systemctl disable --now redis-server"]
    } else if std::path::Path::new("/etc/init.d/redis-server").exists() {
        &[
            "service redis-server stop",
            "update-rc.d redis-server disable",
        ]
    } else {
        &[]
    };
    for line in lines {
        if let Err(error) = run(&mut command(line, true)) {
            eprintln!("a redis service may be running: {error:#}");
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
            for line in manager.commands {
                assert!(line.contains(manager.program), "{line}");
            }
        }
    }

    #[test]
    fn a_command_line_becomes_a_command() {
        let command = command("brew install redis", false);
        assert_eq!(command.get_program(), "brew");
        assert!(command.get_args().eq(["install", "redis"]));
    }
}
