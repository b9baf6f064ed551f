//! The signals that this process receives, and their senders.

use std::{fs, io, thread};

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
};
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Handle, SignalsInfo};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The signals that are passed on, and SIGCHLD.
const SIGNALS: [i32; 10] = [
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
];

/// A signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) number: i32,
    /// Whether a process sent the signal. For a key on a terminal, the kernel sends it to all processes of the group.
    pub(crate) by_process: bool,
}

/// Receives signals until it is dropped. Until then, a signal has no other effect.
pub(crate) struct Signals {
    received: UnboundedReceiver<Sent>,
    handle: Handle,
}

impl Signals {
    /// Starts to receive. A signal that was ignored at the start of this process, for example by nohup(1), stays
    /// ignored, in the command as well.
    pub(crate) fn register() -> io::Result<Self> {
        let ignored = ignored();
        let wanted = SIGNALS
            .iter()
            .filter(|&&number| number == SIGCHLD || ignored & (1u64 << (number - 1)) == 0);
        let mut signals = SignalsInfo::<WithOrigin>::new(wanted)?;
        let handle = signals.handle();
        let (sender, received) = unbounded_channel();
        let forward = move || {
            for origin in signals.forever() {
                let sent = Sent {
                    number: origin.signal,
                    by_process: origin.process.is_some(),
                };
                if sender.send(sent).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().spawn(forward)?;
        Ok(Self { received, handle })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Sent {
        match self.received.recv().await {
            Some(sent) => sent,
            None => std::future::pending().await,
        }
    }

    /// Waits, while no command runs, for a signal that must end this process, and returns that signal.
    pub(crate) async fn end(&mut self) -> i32 {
        loop {
            match self.next().await.number {
                SIGTSTP => stop_this_process(),
                SIGCONT | SIGCHLD => {}
                number => return number,
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Stops this process, and returns when it was continued.
pub(crate) fn stop_this_process() {
    // A process may always signal itself.
    let _ = kill_process(getpid(), Signal::STOP);
}

/// The ignored signals, as bits from 1 on. Systems other than Linux show them to unsafe code only.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let bits = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}
