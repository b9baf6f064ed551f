//! `docs/cli.md` shows the output of the program.
//!
//! In a block that begins with ```` ```console ````, lines with `$ ` are typed, and the other lines are their output.
//! The first blocks are several terminals that share one server: see [`terminals`]. After the comment [`ALONE`], each
//! block has its own server, and one shell. A comment before it, `<!-- beside: COMMAND -->`, is a command that
//! runs at the same time, and has printed a line before the block begins. `REENTRY_DOCS=write cargo test -p reentry-cli
//! page` writes the output into the page.

mod normal;
mod terminals;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::program::{Ended, Running, ended_of, reentry_at, with_variables};
use crate::support::server::RedisServer;

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const BEGIN: &str = "```console\n";
const END: &str = "```\n";
const BESIDE: &str = "<!-- beside: ";

/// What separates the blocks of the terminals from the others.
const ALONE: &str = "<!-- each block from here on has a server of its own -->";

/// The line after the output of each command.
const MARK: &str = "@@ end of output @@";

/// The block with its output on a server of its own.
async fn alone(block: &str, before: &str) -> String {
    let server = RedisServer::start().await;
    let mut running = Vec::new();
    for script in before.lines().filter_map(beside) {
        let mut beside = Running::start(&mut shell(&server, &format!("exec {script}")));
        beside.line().await;
        running.push(beside);
    }
    normal::form(&run(&server, block))
}

/// Compares each block of the page with the output of `run` for it and for the text since the previous block.
async fn check(mut run: impl AsyncFnMut(&str, &str) -> String) {
    let path = Path::new(ROOT).join("docs/cli.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut new = String::new();
    let mut rest = &*page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (block, after) = after.split_once(END).expect("the end of a block");
        let since = before.rsplit(END).next().unwrap_or_default();
        new = new + before + BEGIN + &run(block, since).await + END;
        rest = after;
    }
    new += rest;
    if is_written() {
        fs::write(path, &new).unwrap();
        return;
    }
    for (is, should_be) in page.lines().zip(new.lines()) {
        assert_eq!(
            is, should_be,
            "REENTRY_DOCS=write cargo test -p reentry-cli page"
        );
    }
    assert_eq!(page.lines().count(), new.lines().count());
}

/// Whether the output is written into the page, instead of being compared with it.
fn is_written() -> bool {
    env::var("REENTRY_DOCS").is_ok_and(|it| it == "write")
}

fn beside(line: &str) -> Option<&str> {
    line.strip_prefix(BESIDE)?.strip_suffix(" -->")
}

/// The block with the output of its commands.
fn run(server: &RedisServer, block: &str) -> String {
    let typed = block.lines().filter_map(|line| line.strip_prefix("$ "));
    let typed: Vec<_> = typed.collect();
    // The next command may print the exit code of this one.
    let step = |line: &&str| format!("{line}\ncode=$?; echo '{MARK}'; (exit $code)\n");
    let script: String = typed.iter().map(step).collect();
    let mut command = shell(server, &format!("exec 2>&1\n{script}"));
    let Ended { out, .. } = ended_of(command.stdin(Stdio::null()));
    let mark = format!("{MARK}\n");
    let outputs: Vec<_> = out.split(&mark).collect();
    assert_eq!(outputs.len(), typed.len() + 1, "{out}");
    let lines = typed.iter().zip(outputs);
    lines
        .map(|(line, output)| format!("$ {line}\n{output}"))
        .collect()
}

/// A shell with the program on its PATH, and with this server.
pub(crate) fn shell(server: &RedisServer, script: &str) -> Command {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_reentry"));
    let folder = program.parent().unwrap_or(Path::new("."));
    let path = env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    with_variables(&mut command, &reentry_at(server, &[]))
        .current_dir(ROOT)
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("COLUMNS", "100");
    command
}
