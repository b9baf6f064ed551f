//! Ports that stay ours, also while the server behind them is down.

use rustix::fs::{FlockOperation, flock};
use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Below the range from which the kernel picks ports for outgoing connections. A port from that
/// range could be taken by any client while its server restarts, and a client that reconnects to
/// a server that is down could even be connected to itself.
const RANGE: Range<u16> = 15_000..32_000;

/// A port on 127.0.0.1 which no other test takes for as long as this value lives.
#[derive(Debug)]
pub struct Port {
    /// The number to listen on.
    pub number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port on which no program listens.
    ///
    /// Tests of this crate, in any process of this user, never get the same one. Another program may
    /// still take it, so the listener must be ready to hear that the address is in use.
    pub fn reserve() -> Port {
        let user = rustix::process::getuid().as_raw();
        let folder = std::env::temp_dir().join(format!("reentry-ports-{user}"));
        fs::create_dir_all(&folder).expect("a folder for the reserved ports");
        for _ in 0..1_000 {
            let number = RANGE.start + random() % (RANGE.end - RANGE.start);
            let path = folder.join(number.to_string());
            let lock = File::create(path).expect("a file for the reserved port");
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
                && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
            {
                return Port {
                    number,
                    _lock: lock,
                };
            }
        }
        panic!("no free port among {RANGE:?}");
    }
}

/// Every `RandomState` hashes with keys of its own.
fn random() -> u16 {
    let hash = RandomState::new().build_hasher().finish();
    u16::try_from(hash & 0xffff).expect("sixteen bits")
}
