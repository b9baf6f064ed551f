//! The processes of this machine, from `/proc`.

use std::collections::BTreeMap;
use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use crate::acquire::enclosing::is_inside;

/// The folder in which the kernel shows the processes.
const PROC: &str = "/proc";

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    group: i32,
    /// The start time, on a clock of the kernel. Another process with this id has another start time.
    start: u64,
    /// Whether the process has ended, and was not waited for.
    is_zombie: bool,
}

/// The process that was started as the command.
#[derive(Clone, Copy, Debug)]
struct First {
    pid: i32,
    /// The start time; `None` if it is not shown. A program of another user is hidden where `/proc` is mounted with
    /// `hidepid`.
    start: Option<u64>,
    leads_group: bool,
}

/// The processes of one command, as far as they were seen.
pub(super) struct Found {
    root: &'static str,
    command: Option<First>,
    hold: String,
    seen: BTreeMap<i32, u64>,
}

/// The processes at one moment.
pub(super) struct TreeScan {
    pub(super) alive: Vec<Alive>,
    /// Whether the command has ended and was waited for, so that another process may have its id.
    pub(super) command_has_gone: bool,
    /// Whether the command would be visible.
    pub(super) is_complete: bool,
}

/// A live process.
pub(super) struct Alive {
    pub(super) pid: i32,
    pub(super) group: i32,
}

impl Found {
    /// The command must not have been waited for.
    pub(super) fn new(command: i32, shares_group: bool, hold: &str) -> Self {
        let start = process(PROC, command).map(|process| process.start);
        let has_gone = || Pid::from_raw(command).map(test_kill_process) == Some(Err(Errno::SRCH));
        let command = First {
            pid: command,
            // No process has the start time 0.
            start: start.or_else(|| has_gone().then_some(0)),
            leads_group: !shares_group,
        };
        Self {
            command: Some(command),
            ..Self::of_hold(hold)
        }
    }

    /// The processes of a command that is not known.
    pub(super) fn of_hold(hold: &str) -> Self {
        Self {
            root: PROC,
            command: None,
            hold: hold.to_owned(),
            seen: BTreeMap::new(),
        }
    }

    /// The processes on a system that shows none.
    #[cfg(test)]
    pub(super) fn nowhere() -> Self {
        Self {
            root: "/nowhere",
            ..Self::of_hold("")
        }
    }

    /// The live processes of the command at this moment. `None` if the kernel does not show processes.
    pub(super) fn scan(&mut self) -> Option<TreeScan> {
        let all = processes(self.root)?;
        let lives = |pid, start| all.get(&pid).is_some_and(|it: &Process| it.start == start);
        self.seen.retain(|&pid, start| lives(pid, *start));
        if let Some(first) = &mut self.command {
            first.start = first.start.or_else(|| Some(all.get(&first.pid)?.start));
        }
        let has_gone = |first: First| first.start.is_some_and(|start| !lives(first.pid, start));
        let command_has_gone = self.command.is_some_and(has_gone);
        let command = self.command.filter(|_| !command_has_gone);
        let mut found: Vec<i32> = self.seen.keys().copied().collect();
        let group = self.group(command, &all);
        for (&pid, process) in &all {
            let is_command = command.is_some_and(|first| first.pid == pid);
            if is_command || group == Some(process.group) || has_hold(self.root, pid, &self.hold) {
                found.push(pid);
            }
        }
        while let Some(pid) = found.pop() {
            if let Some(process) = all.get(&pid) {
                self.seen.insert(pid, process.start);
            }
            let children = all.iter().filter(|(_, process)| process.parent == pid);
            let children = children.map(|(&child, _)| child);
            found.extend(children.filter(|child| !self.seen.contains_key(child)));
        }
        let alive = self.seen.keys().filter_map(|&pid| {
            let process = all.get(&pid).filter(|process| !process.is_zombie)?;
            let group = process.group;
            Some(Alive { pid, group })
        });
        Some(TreeScan {
            alive: alive.collect(),
            command_has_gone,
            is_complete: self.command.is_none_or(|first| first.start.is_some()),
        })
    }

    /// The group of the command. While a process that was seen in the group lives, nothing else has its id.
    fn group(&self, command: Option<First>, all: &BTreeMap<i32, Process>) -> Option<i32> {
        let group = self.command.filter(|first| first.leads_group)?.pid;
        let mut seen = self.seen.keys().filter_map(|pid| all.get(pid));
        (command.is_some() || seen.any(|process| process.group == group)).then_some(group)
    }
}

/// The zombies whose parent is this process.
pub(super) fn ended_children() -> Vec<Pid> {
    let this = getpid().as_raw_nonzero().get();
    let all = processes(PROC).unwrap_or_default();
    let ended = all
        .into_iter()
        .filter(|(_, it)| it.parent == this && it.is_zombie);
    ended.filter_map(|(pid, _)| Pid::from_raw(pid)).collect()
}

/// All processes by their ids. If this process is missing, processes are not shown.
fn processes(root: &str) -> Option<BTreeMap<i32, Process>> {
    let entries = fs::read_dir(root).ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: BTreeMap<_, _> = pids
        .filter_map(|pid| Some((pid, process(root, pid)?)))
        .collect();
    let this = getpid().as_raw_nonzero().get();
    all.contains_key(&this).then_some(all)
}

/// A process by its id. It may have ended in the meantime.
fn process(root: &str, pid: i32) -> Option<Process> {
    parse(&fs::read_to_string(format!("{root}/{pid}/stat")).ok()?)
}

/// Whether a process was started with this hold in its environment.
fn has_hold(root: &str, pid: i32, hold: &str) -> bool {
    // The environment of another user's process cannot be read.
    let environment = fs::read(format!("{root}/{pid}/environ")).unwrap_or_default();
    !hold.is_empty() && is_inside(&environment, hold)
}

/// Parses a line, see proc_pid_stat(5). The name of the program is in parentheses, and may contain parentheses.
fn parse(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<_> = rest.split_ascii_whitespace().collect();
    Some(Process {
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_is_skipped() {
        let stat = "42 (a) b (c)) S 7 40 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        let expected = Process {
            parent: 7,
            group: 40,
            start: 12345,
            is_zombie: false,
        };
        assert_eq!(parse(stat), Some(expected));
        for broken in ["", "42 (a", "42 (a)", "42 (a) S 7"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
