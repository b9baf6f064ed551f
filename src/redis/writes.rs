//! The writes of a driver: when what it was handed has been written to the socket.
//!
//! redis-rs does not say so. But at each poll its task takes the requests that it was handed, and writes them. So a
//! request has been written when a poll that began after the request was handed over has ended, and the socket has taken
//! everything.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;
use pin_project::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::task::coop::has_budget_remaining;

use crate::base::sync::wait_until;

/// The writes of one driver.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Counts when a poll of the task begins, and when it ends: the number is odd during a poll.
    polls: AtomicU64,
    /// The number at the end of the last poll that has left nothing unwritten.
    complete: AtomicU64,
    /// Whether the socket has not taken everything yet.
    is_blocked: AtomicBool,
    task: AtomicWaker,
    written: Notify,
}

impl Writes {
    /// The number of polls so far.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(SeqCst)
    }

    /// Waits until everything is written that was handed to the driver before. `before` is the number of polls before it
    /// was handed over.
    pub(crate) async fn until_written(&self, before: u64) {
        // A change reads the latest number: a poll that is not counted here yet finds what was handed over.
        let polls = self.polls.fetch_add(0, SeqCst);
        let is_polled = polls % 2 == 1;
        if is_polled || polls != before {
            // A poll has taken the request, or has not seen it. Without this there may be no further one.
            self.task.wake();
        }
        // Each poll counts twice, at its beginning and its end. The poll in progress may have looked for requests
        // before this one came, so the next one counts: its end is three steps away, and two if there is none in
        // progress.
        let end = polls + if is_polled { 3 } else { 2 };
        let is_written = || (self.complete.load(SeqCst) >= end).then_some(());
        wait_until(&self.written, is_written).await;
    }

    fn begin_poll(&self, task: &Waker) {
        // Before the poll is counted: a request that sees the new number finds the task to wake.
        self.task.register(task);
        self.polls.fetch_add(1, SeqCst);
    }

    fn end_poll(&self, task: &Waker, has_ended: bool) {
        let polls = self.polls.fetch_add(1, SeqCst) + 1;
        if has_ended {
            // It has found the end of the connection, maybe before it has written anything.
            return;
        }
        if !has_budget_remaining() {
            // The poll may have ended before it looked for requests.
            task.wake_by_ref();
        // A poll that the socket has blocked has left something unwritten. The poll that writes the rest counts.
        } else if !self.is_blocked.load(SeqCst) {
            self.complete.store(polls, SeqCst);
            self.written.notify_waiters();
        }
    }

    fn note<T>(&self, written: &Poll<io::Result<T>>) {
        self.is_blocked.store(written.is_pending(), SeqCst);
    }
}

/// Polls a driver to its end, and counts the polls.
pub(super) async fn drive(driver: impl Future, writes: Arc<Writes>) {
    let mut driver = pin!(driver);
    poll_fn(|cx| {
        writes.begin_poll(cx.waker());
        let polled = driver.as_mut().poll(cx);
        writes.end_poll(cx.waker(), polled.is_ready());
        polled.map(drop)
    })
    .await;
}

/// A socket whose writes are noted.
#[pin_project]
pub(super) struct WatchedSocket<S> {
    #[pin]
    pub(super) socket: S,
    pub(super) writes: Arc<Writes>,
}

impl<S: AsyncRead> AsyncRead for WatchedSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().socket.poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite> AsyncWrite for WatchedSocket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = this.socket.poll_write(cx, bytes);
        this.writes.note(&written);
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let flushed = this.socket.poll_flush(cx);
        this.writes.note(&flushed);
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().socket.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::spawn;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tokio::task::yield_now;

    use super::*;

    /// A driver that writes what it is handed to a socket with room for four bytes.
    fn driver() -> (Arc<Writes>, UnboundedSender<&'static [u8]>, DuplexStream) {
        let (near, far) = duplex(4);
        let (hand_over, mut handed_over) = unbounded_channel::<&'static [u8]>();
        let writes = Arc::<Writes>::default();
        let mut socket = WatchedSocket {
            socket: near,
            writes: Arc::clone(&writes),
        };
        let driver = async move {
            while let Some(request) = handed_over.recv().await {
                let _ = socket.write_all(request).await;
            }
        };
        spawn(drive(driver, Arc::clone(&writes)));
        (writes, hand_over, far)
    }

    #[tokio::test]
    async fn a_request_is_written_when_the_socket_has_taken_all_of_it() {
        let (writes, hand_over, mut far) = driver();
        yield_now().await;
        let before = writes.polls();
        hand_over.send(b"abcdef").unwrap();
        let mut written = pin!(writes.until_written(before));
        for _ in 0..10 {
            assert!(written.as_mut().now_or_never().is_none());
            yield_now().await;
        }
        let mut taken = [0; 2];
        far.read_exact(&mut taken).await.unwrap();
        written.await;
        assert_eq!(&taken, b"ab");
    }

    #[tokio::test]
    async fn data_written_by_a_poll_in_progress_is_noticed_later() {
        let (writes, hand_over, _far) = driver();
        let before = writes.polls();
        hand_over.send(b"abc").unwrap();
        // The poll that takes it ends before the wait begins.
        yield_now().await;
        assert!(writes.polls() > before);
        writes.until_written(before).await;
    }

    /// The driver of redis-rs reads before it writes, and ends there if the server has closed the connection.
    #[tokio::test]
    async fn a_driver_that_has_ended_has_written_nothing() {
        let writes = Arc::<Writes>::default();
        let before = writes.polls();
        spawn(drive(ready(()), Arc::clone(&writes)));
        let mut written = pin!(writes.until_written(before));
        for _ in 0..10 {
            assert!(written.as_mut().now_or_never().is_none());
            yield_now().await;
        }
    }
}
