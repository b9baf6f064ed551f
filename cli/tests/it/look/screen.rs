//! A terminal, and what is on its screen.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use rexpect::process::{PtyProcess, Signal, WaitStatus};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use vt100::Parser;

use crate::program::within_script;
use crate::support::wait::{DEADLINE, eventually};

fn count(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a screen that has room")
}

/// A program with its own terminal. It is killed together with the terminal.
pub(crate) struct Screen {
    process: PtyProcess,
    keys: File,
    seen: Arc<Mutex<Parser>>,
}

impl Screen {
    /// Starts a program at a terminal of this size.
    pub(crate) fn start(command: Command, rows: u16, columns: u16) -> Self {
        // The terminal has its size before the program begins, which may look at it only once.
        let sized = format!(r#"stty rows {rows} columns {columns} && exec "$0" "$@""#);
        let process = PtyProcess::new(within_script(&sized, &command)).unwrap();
        let keys = process.get_file_handle().unwrap();
        let mut output = process.get_file_handle().unwrap();
        let seen = Arc::new(Mutex::new(Parser::new(count(rows), count(columns), 0)));
        let screen = Self {
            process,
            keys,
            seen: Arc::clone(&seen),
        };
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // The end of the program is an error here.
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                seen.lock().unwrap().process(&bytes[..length]);
            }
        });
        screen
    }

    /// Resizes the terminal, like a user who drags the corner of the window.
    pub(super) fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        self.seen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(count(rows), count(columns));
        tcsetwinsize(&self.keys, size).unwrap();
    }

    pub(super) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn text(&self) -> String {
        self.seen.lock().unwrap().screen().contents()
    }

    /// Whether the program uses the whole screen.
    pub(super) fn is_taken(&self) -> bool {
        self.seen.lock().unwrap().screen().alternate_screen()
    }

    /// Waits until the program no longer uses the whole screen. Its last output may be read after its end.
    pub(super) async fn until_given_back(&self) {
        let is_free = async || !self.is_taken();
        eventually(DEADLINE, "it gives the screen back", is_free).await;
    }

    /// Waits until the screen meets a condition.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let is_so = async || is_so(&self.text());
        eventually(DEADLINE, what, is_so).await;
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    /// Whether a program receives each letter as it is typed, without an echo.
    pub(super) fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.keys).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// The exit code, once it has ended.
    pub(super) async fn code(&self) -> i32 {
        let code = Mutex::new(None);
        let ended = async || match self.process.status() {
            Some(WaitStatus::Exited(_, status)) => {
                *code.lock().unwrap() = Some(status);
                true
            }
            _ => false,
        };
        eventually(DEADLINE, "it ends", ended).await;
        code.into_inner().unwrap().unwrap()
    }
}
