//! The process of a call graph: the part of an owner's id that identifies the process, and the process's description of
//! itself. And a holder of a lock, as the store describes it, which names its process.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fmt};

use uuid::{Builder, Uuid};

use super::sanitize::{Sanitized, sanitize_char};
use super::sync::Mutex;

/// The maximum length of a text in which a process describes itself, in characters. Longer texts are truncated.
const MAX_TEXT_LENGTH: usize = 100;

/// The number of random bits that the ids of one process have in common.
const PROCESS_BITS: u32 = 48;

/// A process, identified by the first 48 bits of the ids of its owners and inboxes.
///
/// The other 74 random bits of an id are its own. The probability that two of 10,000 processes have the same 48 bits is
/// 2 in 10 million. Then one of them is shown instead of the other. Within the 10 minutes that a tombstone lasts, one
/// process may create 60 million owners. The probability that two of them have the same 74 bits is 1 in 10 million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ProcessId(u64);

/// The reason why a request is rejected in a fork of the process that used its `Locks` before.
pub(crate) const FORKED: &str = "this `Locks` was used before the process was forked: build one in each process, or use \
    it for the first time after the fork";

/// This process. It is the same for all its `Locks`, because a call graph may use several.
static THIS: LazyLock<This> = LazyLock::new(|| This {
    seed: ProcessId::from_uuid(random_uuid()).0,
    begun: SystemTime::now(),
    host: hostname::get()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned(),
    name: Mutex::new(program()),
    note: Mutex::new(Arc::from("")),
});

struct This {
    /// The id, before the process id is mixed in.
    seed: u64,
    begun: SystemTime,
    host: String,
    name: Mutex<Arc<str>>,
    note: Mutex<Arc<str>>,
}

/// Sets the name of this process, and replaces the present name.
pub(crate) fn set_name(name: Arc<str>) {
    *THIS.name.lock() = name;
}

/// Sets the note of this process, and replaces the present note.
pub(crate) fn set_note(note: Arc<str>) {
    *THIS.note.lock() = note;
}

/// The name of the connections of this process, in `CLIENT LIST`: `name:pid@host`. It contains no character that the
/// server rejects.
pub(crate) fn connection_name() -> String {
    let Process {
        name, host, pid, ..
    } = Process::this();
    let letters = |text: String| text.replace(|letter: char| !letter.is_ascii_graphic(), "-");
    format!("{}:{pid}@{}", letters(name), letters(host))
}

impl ProcessId {
    /// The id of this process. A forked process has another one than its parent, although it has a copy of all that its
    /// parent had in memory. It needs no state of its own for that, so no lock that another thread held at the fork.
    pub(crate) fn this() -> Self {
        Self(THIS.seed ^ u64::from(pid()))
    }

    /// The process that a UUID of this crate identifies.
    pub(crate) fn from_uuid(uuid: Uuid) -> Self {
        let (high, _) = uuid.as_u64_pair();
        Self(high >> (u64::BITS - PROCESS_BITS))
    }

    /// A random UUID (version 4) that identifies this process.
    pub(crate) fn new_uuid() -> Uuid {
        let Self(id) = Self::this();
        let (high, low) = random_uuid().as_u64_pair();
        // The version of the UUID is in the bits that stay.
        let rest = u64::BITS - PROCESS_BITS;
        let high = id << rest | high & ((1 << rest) - 1);
        Uuid::from_u64_pair(high, low)
    }
}

/// A random UUID (version 4) with bits of the operating system. A generator in the memory of this process would be
/// copied by a fork and with a snapshot of the machine. Then two processes would make the same ids.
fn random_uuid() -> Uuid {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        panic!("the operating system has no random bits: {error}");
    }
    Builder::from_random_bytes(bytes).into_uuid()
}

/// Twelve hexadecimal digits, as at the beginning of the UUIDs.
impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

/// A process that holds locks or waits for them, as it described itself in the store.
///
/// Each process stores its description when it connects. Nothing proves that it is true. A user who may write to the
/// store may write any description. A description expires a day after the process last stored it, so it outlives the
/// process.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::builder("memory:").name("orders").build().await?;
/// let _guard = locks.lock("order:42").await?;
/// let info = locks.admin().inspect("order:42").await?.expect("it is held");
/// let process = info.holders[0].process.as_ref().expect("it is this process");
/// assert_eq!((process.name.as_str(), process.pid), ("orders", std::process::id()));
/// println!("{process}"); // orders, pid 4711 on worker-3
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Process {
    /// The name of the program. See [`LocksBuilder::name`](crate::LocksBuilder::name). As in the other texts, control
    /// characters are shown as U+FFFD, and at most 100 characters are stored and shown.
    pub name: String,
    /// The name of the machine or container.
    pub host: String,
    /// The process id on its host. In a container it may be 1 for each process.
    pub pid: u32,
    /// The version of this crate in the program.
    pub version: String,
    /// When the process, or the one that it was forked from, created its first [`Locks`](crate::Locks), on the clock of
    /// its host, in whole seconds.
    pub started: SystemTime,
    /// What the command `reentry` says about its locks. Empty for any other program.
    pub(crate) note: String,
}

impl Process {
    /// This process.
    pub(crate) fn this() -> Self {
        // Sanitized, because a line feed in a text would add a line to the description.
        let name = Arc::clone(&THIS.name.lock());
        let note = Arc::clone(&THIS.note.lock());
        let seconds = since_epoch(THIS.begun);
        Self {
            name: sanitize(&name),
            host: sanitize(&THIS.host),
            pid: pid(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: UNIX_EPOCH + Duration::from_secs(seconds),
            note: sanitize(&note),
        }
    }

    /// The description as it is stored. It has one line each for the name, host, pid, version, and the time of the
    /// start in seconds. A note follows if there is one.
    pub(crate) fn to_text(&self) -> String {
        let Self {
            name,
            host,
            pid,
            version,
            started,
            note,
        } = self;
        let begun = since_epoch(*started);
        let before = if note.is_empty() { "" } else { "\n" };
        format!("{name}\n{host}\n{pid}\n{version}\n{begun}{before}{note}")
    }

    /// Reads a stored description. Returns `None` if it does not have the form in which this crate stores it. A later
    /// version may add lines.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        // Any user of the store may write a description, so each text is sanitized, and its length is limited.
        let mut lines = text.split('\n');
        let mut next = || lines.next();
        let (name, host) = (sanitize(next()?), sanitize(next()?));
        let (pid, version) = (next()?.parse().ok()?, sanitize(next()?));
        let seconds = Duration::from_secs(next()?.parse().ok()?);
        Some(Self {
            name,
            host,
            pid,
            version,
            started: UNIX_EPOCH.checked_add(seconds)?,
            note: next().map(sanitize).unwrap_or_default(),
        })
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, host, pid, ..
        } = self;
        write!(f, "{}, pid {pid} on {}", Sanitized(name), Sanitized(host))
    }
}

/// A holder of a lock, as Redis has it.
///
/// [`Admin::inspect`](crate::admin::Admin::inspect) shows all holders of a lock.
/// [`LockError::Busy`](crate::LockError::Busy) has the one that the caller was waiting for, as it was at most a
/// heartbeat earlier.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), reentry::LockError> {
/// use reentry::LockError;
///
/// let locks = reentry::Locks::in_memory();
/// let guard = locks.lock("order:42").await?;
/// let late = locks.lock("order:42").wait(Duration::from_secs(2)).await;
/// let Err(LockError::Busy { holder: Some(holder), .. }) = late else { panic!("it is held") };
/// assert!(holder.is_here && holder.depth == 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The name of the field. It is `<owner>:<number>` if this crate has written it. Bytes that are not UTF-8
    /// are shown as U+FFFD.
    pub hold_id: String,
    /// The id of the call graph of the holder, a UUID, if the field has the form `<uuid>:<integer>`. `None` for another
    /// program.
    pub owner: Option<String>,
    /// The process of the holder, as it described itself. `None` if the store does not know it, for example for another
    /// program.
    pub process: Option<Process>,
    /// Whether the hold belongs to this process and to the same [`Locks`](crate::Locks).
    pub is_here: bool,
    /// The number of nested entries of the hold. It is 1 if only [spawned work](crate::FutureExt::in_current_call)
    /// keeps the hold. It is 0 if another program has written a value that is not a number of entries.
    pub depth: u64,
    /// How long the lock has been held, on the server's clock: by the first of the readers, or the first of the callers
    /// of one process that follow each other under one hold. `None` for another program, and if the clock was set back.
    pub held_for: Option<Duration>,
    /// How long the lease of this reader lasts unless it is renewed. `None` if the lock is held exclusively.
    pub remaining: Option<Duration>,
}

/// The holder in a message: `worker, pid 7 on host-3 (<hold id>) for 2.1s`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reader knows its own process, so only another one is described.
        let (process, hold_id) = (self.process.as_ref(), Sanitized(&self.hold_id));
        match process.filter(|_| !self.is_here) {
            Some(process) => write!(f, "{process} ({hold_id})")?,
            None => write!(f, "{hold_id}")?,
        }
        if self.is_here {
            f.write_str(" in this process")?;
        }
        if let Some(held_for) = self.held_for {
            write!(f, " for {held_for:.1?}")?;
        }
        Ok(())
    }
}

/// The name of this program: its file name, without the folder and the extension.
fn program() -> Arc<str> {
    let program = env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_stem().unwrap_or_default();
    name.to_string_lossy().into()
}

/// Returns a text that others may have written, in the form in which it is shown.
fn sanitize(text: &str) -> String {
    text.chars()
        .take(MAX_TEXT_LENGTH)
        .map(sanitize_char)
        .collect()
}

fn since_epoch(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// The id of this process. It is read anew each time, because a fork changes it.
#[cfg(not(test))]
fn pid() -> u32 {
    std::process::id()
}

#[cfg(test)]
thread_local! {
    static IN_FORK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The id of the process that the test on this thread is in.
#[cfg(test)]
fn pid() -> u32 {
    std::process::id() + u32::from(IN_FORK.get())
}

/// Calls `work` as if it ran in a fork of this process, which has a copy of everything in memory.
#[cfg(test)]
pub(crate) fn in_a_fork<T>(work: impl FnOnce() -> T) -> T {
    IN_FORK.set(true);
    let done = work();
    IN_FORK.set(false);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_process_and_is_a_random_uuid() {
        let (one, other) = (ProcessId::new_uuid(), ProcessId::new_uuid());
        assert_ne!(one, other);
        for uuid in [one, other] {
            assert_eq!(ProcessId::from_uuid(uuid), ProcessId::this());
            assert_eq!(
                (uuid.get_version_num(), uuid.get_variant()),
                (4, uuid::Variant::RFC4122)
            );
            let digits = uuid.simple().to_string();
            assert!(digits.starts_with(&ProcessId::this().to_string()));
        }
        assert_ne!(ProcessId::from_uuid(random_uuid()), ProcessId::this());
    }

    #[test]
    fn a_fork_is_another_process() {
        let (process, id) = (ProcessId::this(), ProcessId::new_uuid());
        let (forked, forked_id) = in_a_fork(|| (ProcessId::this(), ProcessId::new_uuid()));
        assert_eq!(ProcessId::from_uuid(id), process);
        assert_eq!(ProcessId::from_uuid(forked_id), forked);
        assert_ne!(forked, process);
        assert_eq!(ProcessId::this(), process);
    }

    #[test]
    fn a_description_survives_the_round_trip_through_its_text() {
        for note in ["", "min_hold 60000"] {
            let process = Process {
                note: note.to_owned(),
                ..Process::this()
            };
            assert_eq!(Process::from_text(&process.to_text()), Some(process));
        }
    }

    #[test]
    fn a_malformed_description_is_rejected() {
        let text = "orders\nworker-3\n4711\n0.1.0\n1790000000";
        assert!(Process::from_text(text).is_some());
        assert!(Process::from_text(&format!("{text}\nand more")).is_some());
        for text in [
            "",
            "orders\nworker-3\n4711\n0.1.0",
            "orders\nworker-3\n-1\n0.1.0\n1790000000",
            "orders\nworker-3\n4711\n0.1.0\nsoon",
            "orders\nworker-3\n4711\n0.1.0\n18446744073709551615",
        ] {
            assert_eq!(Process::from_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn control_characters_of_a_description_are_replaced() {
        let long = "x".repeat(1_000);
        let text = format!("or\x1b[2Jders\na\u{202e}b\tc\n1\n{long}\n0");
        let process = Process::from_text(&text).unwrap();
        assert_eq!(process.name, "or\u{fffd}[2Jders");
        assert_eq!(process.host, "a\u{fffd}b\u{fffd}c");
        assert_eq!(process.version.len(), MAX_TEXT_LENGTH);
    }
}
