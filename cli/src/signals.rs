//! What this process is sent, and by whom.

use std::{fs, io, thread};

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::{
    consts::{
        SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
    },
    iterator::{Handle, SignalsInfo, exfiltrator::WithOrigin},
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Those that are passed on, and SIGCHLD.
const SIGNALS: [i32; 10] = [
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
];

/// One signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) number: i32,
    /// Whether a process has sent it. The kernel does so for a key on a terminal, and there sends it to all
    /// processes of the group.
    pub(crate) by_process: bool,
}

/// Receives signals for as long as it lives; nothing else happens on them from then on.
pub(crate) struct Signals {
    received: UnboundedReceiver<Sent>,
    handle: Handle,
}

impl Signals {
    /// A signal that this process was started to ignore stays ignored, as by nohup(1), also by the command.
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

    /// The next one.
    pub(crate) async fn next(&mut self) -> Sent {
        match self.received.recv().await {
            Some(sent) => sent,
            None => std::future::pending().await,
        }
    }

    /// Waits, without a command, until this process is to end; the signal that says so.
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

/// Returns when it was continued.
pub(crate) fn stop_this_process() {
    // To oneself it is allowed.
    let _ = kill_process(getpid(), Signal::STOP);
}

/// The signals that are ignored, as bits from 1 on. Systems other than Linux do not tell without unsafe code.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let bits = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}
