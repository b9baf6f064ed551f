//! Ports that stay reserved, even while the server behind them is down.

use rustix::fs::{FlockOperation, flock};
use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;

/// A range below the range from which the kernel picks ports for outgoing connections. Any client could take a port
/// from that other range while its server restarts. A client that reconnects to a server that is down could even be
/// connected to itself.
const RANGE: Range<u16> = 15_000..32_000;

/// The distance from the port of a node to its port for the other nodes of the cluster.
const BUS: u16 = 10_000;

/// A port on 127.0.0.1 which no other test takes for as long as this value lives.
#[derive(Debug)]
pub struct Port {
    /// The number to listen on.
    pub number: u16,
    _lock: File,
    _bus: Option<File>,
}

impl Port {
    /// Reserves a port on which no program listens.
    ///
    /// Tests of this crate, in any process of this user, never get the same port. Another program may still take it, so
    /// the listener must expect that the address is in use.
    pub fn reserve() -> Port {
        let of = |folder: &Path, number| Some((lock(folder, number)?, None));
        Port::among(RANGE, of)
    }

    /// Reserves a port for a node of a cluster, together with the port 10000 above.
    pub fn reserve_with_bus() -> Port {
        let of = |folder: &Path, number| {
            let bus = lock(folder, number + BUS)?;
            Some((lock(folder, number)?, Some(bus)))
        };
        Port::among(RANGE.start..RANGE.end - BUS, of)
    }

    /// Reserves a port in `range`, with the locks that `locks` returns for it.
    fn among(
        range: Range<u16>,
        locks: impl Fn(&Path, u16) -> Option<(File, Option<File>)>,
    ) -> Port {
        let user = rustix::process::getuid().as_raw();
        let folder = std::env::temp_dir().join(format!("reentry-ports-{user}"));
        fs::create_dir_all(&folder).expect("a folder for the reserved ports");
        for _ in 0..1_000 {
            let number = range.start + random() % (range.end - range.start);
            if let Some((lock, bus)) = locks(&folder, number) {
                return Port {
                    number,
                    _lock: lock,
                    _bus: bus,
                };
            }
        }
        panic!("no free port among {range:?}");
    }
}

/// The lock on one port, if no other test has it and no program listens there.
fn lock(folder: &Path, number: u16) -> Option<File> {
    let path = folder.join(number.to_string());
    let lock = File::create(path).expect("a file for the reserved port");
    let is_ours = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    let is_free = || TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok();
    (is_ours && is_free()).then_some(lock)
}

/// Every `RandomState` has hash keys of its own.
fn random() -> u16 {
    let hash = RandomState::new().build_hasher().finish();
    u16::try_from(hash & 0xffff).expect("sixteen bits")
}
