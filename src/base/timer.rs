//! Timers that follow their future from one runtime to the next, and the growing pauses between attempts.
//!
//! A timer of tokio belongs to the runtime that created it, and panics when it is polled after that runtime has ended.
//! The futures of this crate may be polled by several runtimes, one after the other. For example, a guard is released
//! in another task, and a request in flight is awaited by all callers that need its response. So every timer in this
//! module is created by the runtime that polls it, and is created again by the next one.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use pin_project::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::task::coop::unconstrained;
use tokio::time::{self, Instant};

/// The future that [`sleep_until`] returns.
#[derive(Debug)]
pub(crate) struct Sleep {
    until: Instant,
    /// The timer of the runtime that polled last. It is boxed, because most timers are never armed, and the futures
    /// that contain them stay small.
    armed: Option<(Id, Pin<Box<time::Sleep>>)>,
}

/// Waits until an instant.
///
/// # Panics
///
/// Panics when it is polled outside a tokio runtime with timers.
pub(crate) fn sleep_until(until: Instant) -> Sleep {
    Sleep { until, armed: None }
}

/// Waits for `duration` from now on.
pub(crate) fn sleep(duration: Duration) -> Sleep {
    sleep_until(after(Instant::now(), duration))
}

/// The instant `duration` after `start`. A time too long to represent becomes thirty years.
pub(crate) fn after(start: Instant, duration: Duration) -> Instant {
    // As in tokio: on some platforms, no instant is a hundred years away.
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    // An endless limit is no mistake of the caller.
    start.checked_add(duration).unwrap_or_else(|| start + FAR)
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (here, until) = (Handle::current().id(), self.until);
        // A timer of the runtime that polled before is replaced: that runtime may have ended.
        let armed = self.armed.take().filter(|(runtime, _)| *runtime == here);
        let armed = armed.unwrap_or_else(|| (here, Box::pin(time::sleep_until(until))));
        let (_, timer) = self.armed.insert(armed);
        timer.as_mut().poll(cx)
    }
}

/// Panics in the caller, not in a task, if the runtime has no timers.
///
/// # Panics
///
/// Panics outside a tokio runtime with timers.
pub(crate) fn require_timers() {
    drop(time::sleep(Duration::ZERO));
}

/// The error of a future that was not ready before its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// The future that [`timeout_at`] and [`timeout`] return.
#[pin_project]
#[derive(Debug)]
pub(crate) struct Timeout<F> {
    #[pin]
    future: F,
    limit: Sleep,
    /// Whether the first poll arms no timer. `None` if every poll arms one.
    spares: Option<fn(&F) -> bool>,
}

/// Waits for `future`, but no longer than until `limit`.
pub(crate) fn timeout_at<F: Future>(limit: Instant, future: F) -> Timeout<F> {
    Timeout {
        future,
        limit: sleep_until(limit),
        spares: None,
    }
}

/// Waits for `future`, but no longer than `limit` from now on.
pub(crate) fn timeout<F: Future>(limit: Duration, future: F) -> Timeout<F> {
    timeout_at(after(Instant::now(), limit), future)
}

impl<F> Timeout<F> {
    /// Does not arm a timer at the first poll if the future is certain to wake its task before the limit. Later polls
    /// arm it. The future is certain to do so if `wakes_in_time`, and if `is_certain` returns true after the first
    /// poll.
    pub(crate) fn sparing(self, wakes_in_time: bool, is_certain: fn(&F) -> bool) -> Self {
        Self {
            spares: wakes_in_time.then_some(is_certain),
            ..self
        }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut future = this.future;
        // The future comes first: what is ready counts, even if the limit has passed as well.
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // Only the first poll spares the timer. If it is polled again, the wake-up that it relied on has come, and has
        // brought nothing.
        if this.spares.take().is_some_and(|spares| spares(&future)) {
            return Poll::Pending;
        }
        // The limit applies even if the future has used up the budget of the task.
        let mut limit = unconstrained(this.limit);
        Pin::new(&mut limit).poll(cx).map(|()| Err(Elapsed))
    }
}

/// The first pause of each series, without jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The number of attempts after which every series has reached its longest pause.
const MAX_GROWING_ATTEMPTS: usize = 64;

/// A series of pauses from 10 ms to a longest pause. Jitter at most doubles each pause.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Backoff {
    longest: Duration,
    /// The factor from one pause to the next, in halves: an integer, so that it can be compared.
    halves: u8,
    made: usize,
}

impl Backoff {
    /// Pauses of which each is twice as long as the one before.
    pub(crate) const fn doubling(longest: Duration) -> Self {
        Self::growing(longest, 4)
    }

    /// Pauses of which each is one and a half times as long as the one before.
    pub(crate) const fn slow(longest: Duration) -> Self {
        Self::growing(longest, 3)
    }

    const fn growing(longest: Duration, halves: u8) -> Self {
        let made = 0;
        Self {
            longest,
            halves,
            made,
        }
    }

    pub(crate) fn next_pause(&mut self) -> Duration {
        // The series is built anew each time, because this value is a part of the state of a wait machine: it is copied
        // and compared, which the iterator of the library cannot be.
        let series = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(self.longest)
            .with_factor(f32::from(self.halves) / 2.0)
            .with_jitter()
            .without_max_times();
        let pause = series.build().nth(self.made);
        // The pause no longer grows after that, and counting to it would only take longer.
        self.made = (self.made + 1).min(MAX_GROWING_ATTEMPTS);
        pause.unwrap_or(self.longest)
    }

    /// Restarts the series.
    pub(crate) fn reset(&mut self) {
        self.made = 0;
    }
}

/// The pauses between attempts of a request that must succeed.
impl Default for Backoff {
    fn default() -> Self {
        Self::doubling(Duration::from_millis(500))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed precondition ends a test")]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    async fn poll_once(future: Pin<&mut impl Future>) -> bool {
        let mut future = Some(future);
        let poll = move |cx: &mut Context<'_>| {
            let ready = future
                .take()
                .is_some_and(|future| future.poll(cx).is_ready());
            Poll::Ready(ready)
        };
        std::future::poll_fn(poll).await
    }

    #[test]
    fn a_timer_goes_on_in_the_next_runtime() {
        let mut limited = pin!(timeout(Duration::from_millis(20), pending::<()>()));
        let first = runtime();
        assert!(!first.block_on(poll_once(limited.as_mut())));
        drop(first);
        assert_eq!(runtime().block_on(limited), Err(Elapsed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_spared_timer_is_armed_at_the_second_poll() {
        let (limit, half) = (Duration::from_secs(2), Duration::from_secs(1));
        let begun = Instant::now();
        let wakes_early = async {
            sleep(half).await;
            pending::<()>().await;
        };
        let limited = timeout(limit, wakes_early).sparing(true, |_| true);
        assert_eq!(limited.await, Err(Elapsed));
        assert_eq!(begun.elapsed(), limit);
        // A future that wakes too late meets its limit then.
        let limited = timeout(half, async {
            sleep(limit).await;
            pending::<()>().await;
        });
        assert_eq!(limited.sparing(true, |_| true).await, Err(Elapsed));
        assert_eq!(begun.elapsed(), 2 * limit);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_duration_max_never_expires() {
        let hour = Duration::from_secs(3600);
        assert_eq!(timeout(Duration::MAX, sleep(hour)).await, Ok(()));
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_grow_to_the_longest_and_start_again_after_a_reset() {
        let slow = Backoff::slow(50 * MS);
        let doubling = Backoff::doubling(100 * MS);
        for (mut backoff, expected) in [
            (slow, [10_000, 15_000, 22_500, 33_750, 50_000, 50_000]),
            (doubling, [10_000, 20_000, 40_000, 80_000, 100_000, 100_000]),
        ] {
            for _ in 0..2 {
                for least in expected.map(Duration::from_micros) {
                    let pause = backoff.next_pause();
                    assert!((least..=2 * least).contains(&pause), "{least:?}: {pause:?}");
                }
                backoff.reset();
            }
        }
    }

    #[test]
    fn pauses_of_callers_that_fail_together_are_spread() {
        let pauses: Vec<_> = (0..10).map(|_| Backoff::default().next_pause()).collect();
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
    }
}
