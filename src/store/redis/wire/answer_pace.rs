//! How fast a connection answers, and whether it owes an answer.

use std::time::Duration;

use tokio::time::Instant;

/// When a connection was last heard of, and how long its answers take.
#[derive(Debug)]
pub(crate) struct AnswerPace {
    last: Instant,
    /// The longest time that a recent answer took; it fades with those that take less.
    longest: Duration,
}

impl AnswerPace {
    /// The pace of a connection that took so long to make.
    pub(crate) fn new(took: Duration) -> Self {
        Self {
            last: Instant::now(),
            longest: took,
        }
    }

    /// The answer to a request that was sent at `sent` has come.
    pub(crate) fn heard(&mut self, sent: Instant) {
        self.last = Instant::now();
        self.longest = (self.longest - self.longest / 8).max(self.last - sent);
    }

    pub(crate) fn is_silent_since(&self, sent: Instant) -> bool {
        self.last <= sent
    }

    /// Whether something should have been heard since `sent`, when a request was sent that has no answer,
    /// as far as earlier ones tell.
    pub(crate) fn is_late(&self, sent: Instant) -> bool {
        self.last.max(sent).elapsed() > 2 * self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_late_by_the_pace_of_its_answers() {
        let pass = async |millis| tokio::time::advance(Duration::from_millis(millis)).await;
        let mut pace = AnswerPace::new(Duration::from_millis(30));
        let first = Instant::now();
        pass(20).await;
        let second = Instant::now();
        pass(20).await;
        // Nothing is known yet but how long it took to connect.
        assert!(!pace.is_late(first) && !pace.is_late(second));
        pace.heard(first);
        // The answer that came is not that of the second request.
        assert!(!pace.is_late(second) && !pace.is_silent_since(second));
        pass(79).await;
        assert!(!pace.is_late(second));
        pass(2).await;
        assert!(pace.is_late(second));
    }
}
