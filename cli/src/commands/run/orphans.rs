//! Orphans: processes whose parents have ended, and which the kernel gives to this process. It does so for process 1 of
//! a container, and for a subreaper. Such a process must wait for them, or they stay as zombies.

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

    /// Waits for the orphans that have ended, and for no child of our own.
    pub(super) fn reap(&self, own: &[Pid]) {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // One system call if no child has ended. Otherwise all processes are searched.
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
