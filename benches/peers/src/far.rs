//! A network between the contestants and their server, which delays what is sent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::Result;

/// A server that is further away. Its threads end with the process.
#[derive(Debug)]
pub(crate) struct Far {
    port: u16,
}

impl Far {
    /// Delays everything by this time in each direction.
    pub(crate) fn start(server: u16, delay: Duration) -> Result<Far> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        spawn(move || {
            for near in listener.incoming().flatten() {
                // The contestant gets an error if there is no connection.
                let _ = connect(near, server, delay);
            }
        });
        Ok(Far { port })
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn connect(near: TcpStream, server: u16, delay: Duration) -> Result<()> {
    let far = TcpStream::connect(("127.0.0.1", server))?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    carry(near.try_clone()?, far.try_clone()?, delay);
    carry(far, near, delay);
    Ok(())
}

/// Carries one direction. Reading goes on while what was read is on its way.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (send, sent) = channel::<(Instant, Vec<u8>)>();
    spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let read = buffer.get(..count).unwrap_or_default().to_vec();
            if send.send((Instant::now() + delay, read)).is_err() {
                return;
            }
        }
    });
    spawn(move || {
        for (due, bytes) in sent {
            sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
    });
}
