//! The processes of this machine, as `/proc` shows them.

use std::{collections::BTreeMap, fs};

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    group: i32,
    /// When it has started, on a clock of the kernel's: another process with its id has another one.
    start: u64,
    /// Whether it has ended, and was not waited for.
    is_zombie: bool,
}

/// The processes of one command, as far as they were seen.
pub(super) struct Found {
    command: (i32, u64),
    shares_group: bool,
    hold: String,
    seen: BTreeMap<i32, u64>,
}

impl Found {
    /// The command must not have been waited for.
    pub(super) fn new(command: i32, shares_group: bool, hold: &str) -> Self {
        let start = process(command).map_or(0, |process| process.start);
        Self {
            command: (command, start),
            shares_group,
            hold: hold.to_owned(),
            seen: BTreeMap::new(),
        }
    }

    /// Those that live at this moment.
    pub(super) fn look(&mut self) -> impl Iterator<Item = i32> {
        let all = processes();
        let lives = |pid, start| all.get(&pid).is_some_and(|it: &Process| it.start == start);
        self.seen.retain(|&pid, start| lives(pid, *start));
        let (command, start) = self.command;
        let command_lives = lives(command, start);
        let mut found: Vec<i32> = self.seen.keys().copied().collect();
        for (&pid, process) in &all {
            let of_command = pid == command || process.group == command && !self.shares_group;
            if command_lives && of_command || has_hold(pid, &self.hold) {
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
        let lives = |pid: &i32| all.get(pid).is_some_and(|process| !process.is_zombie);
        let alive: Vec<_> = self.seen.keys().copied().filter(lives).collect();
        alive.into_iter()
    }
}

/// All of them by their ids.
fn processes() -> BTreeMap<i32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

/// One of them; it may have gone meanwhile.
fn process(pid: i32) -> Option<Process> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether a process was started with this hold in its environment.
fn has_hold(pid: i32, hold: &str) -> bool {
    // That of another user cannot be read.
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut windows = environment.windows(hold.len().max(1));
    !hold.is_empty() && windows.any(|window| window == hold.as_bytes())
}

/// See proc_pid_stat(5). The name of the program is in parentheses, and may have some.
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
