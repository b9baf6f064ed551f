//! Processes whose parents have ended, where the kernel gives them to this one: to process 1 of a container, and to a
//! subreaper. Such a process has to wait for them, or they stay as zombies.

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::tree::ended_children;

pub(super) struct Orphans {
    are_ours: bool,
}

impl Orphans {
    pub(super) fn new() -> Self {
        Self {
            are_ours: gets_orphans(),
        }
    }

    /// Waits for those that have ended, and for no child of our own.
    pub(super) fn reap(&self, own: &[Pid]) {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // One question, where no child has ended: all processes are looked through else.
        let has_any = || {
            matches!(
                waitid(WaitId::All, ended | WaitIdOptions::NOWAIT),
                Ok(Some(_))
            )
        };
        if !self.are_ours || !has_any() {
            return;
        }
        for orphan in ended_children().into_iter().filter(|it| !own.contains(it)) {
            let _ = waitid(WaitId::Pid(orphan), ended);
        }
    }
}

#[cfg(target_os = "linux")]
fn gets_orphans() -> bool {
    use rustix::process::{child_subreaper, getpid};

    getpid().is_init() || matches!(child_subreaper(), Ok(Some(_)))
}

#[cfg(not(target_os = "linux"))]
fn gets_orphans() -> bool {
    false
}
