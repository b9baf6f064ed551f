//! A connection that is kept until it fails.

/// A connection, if there is one. Each attempt to connect has a number, which tells its connection from those before and
/// after it.
#[derive(Debug)]
pub(crate) struct Kept<C> {
    connection: Option<C>,
    /// The number of the attempt that ended last. The connection is its result.
    ended: u64,
    /// The number of the attempt that began last.
    begun: u64,
    is_closed: bool,
}

impl<C> Default for Kept<C> {
    fn default() -> Self {
        Self {
            connection: None,
            ended: 0,
            begun: 0,
            is_closed: false,
        }
    }
}

impl<C> Kept<C> {
    /// The connection that is there.
    pub(crate) fn present(&self) -> Option<&C> {
        self.connection.as_ref()
    }

    /// The number of the connection that is there, or was.
    pub(crate) fn number(&self) -> u64 {
        self.ended
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Begins an attempt, and returns its number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// Whether the connection of this attempt is there, or is being made.
    pub(crate) fn has_or_awaits(&self, number: u64) -> bool {
        let is_awaited = self.begun == number && self.ended != number;
        is_awaited || self.ended == number && self.connection.is_some()
    }

    /// Keeps the result of an attempt, and returns what is not kept. An attempt that was given up does not replace the result
    /// of a later one.
    pub(crate) fn keep(&mut self, number: u64, connection: Option<C>) -> Option<C> {
        if self.begun != number {
            return connection;
        }
        self.ended = number;
        if self.is_closed {
            return connection;
        }
        std::mem::replace(&mut self.connection, connection)
    }

    /// Forgets a connection, unless it has been replaced already.
    pub(crate) fn forget(&mut self, number: u64) -> Option<C> {
        self.connection.take_if(|_| self.ended == number)
    }

    /// Forgets the connection if this is so.
    pub(crate) fn forget_if(&mut self, is_so: impl Fn(&C) -> bool) -> Option<C> {
        self.connection.take_if(|connection| is_so(connection))
    }

    /// Forgets the connection, and keeps no other one.
    pub(crate) fn close(&mut self) -> Option<C> {
        self.is_closed = true;
        self.connection.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It has the connection of its first attempt.
    fn kept() -> Kept<&'static str> {
        let mut kept = Kept::default();
        let number = kept.begin();
        assert_eq!(kept.keep(number, Some("first")), None);
        kept
    }

    #[test]
    fn an_attempt_that_was_given_up_replaces_nothing_that_came_after_it() {
        let mut kept = kept();
        let (late, next) = (kept.begin(), kept.begin());
        assert_eq!(kept.keep(late, Some("late")), Some("late"));
        assert!(kept.has_or_awaits(next) && !kept.has_or_awaits(late));
        assert_eq!(kept.keep(next, Some("next")), Some("first"));
        assert_eq!(kept.keep(late, Some("late")), Some("late"));
        assert_eq!((kept.present(), kept.number()), (Some(&"next"), next));
    }

    #[test]
    fn a_connection_is_forgotten_by_its_own_number_alone() {
        let mut kept = kept();
        let first = kept.number();
        let next = kept.begin();
        // It serves until another one is there.
        assert_eq!(kept.forget(next), None);
        assert_eq!(kept.keep(next, Some("next")), Some("first"));
        assert_eq!(kept.forget(first), None);
        assert_eq!(kept.forget(next), Some("next"));
        assert!(!kept.has_or_awaits(next));
    }

    #[test]
    fn none_is_kept_once_it_is_closed() {
        let mut kept = kept();
        let number = kept.begin();
        assert_eq!(kept.close(), Some("first"));
        assert_eq!(kept.keep(number, Some("next")), Some("next"));
        assert!(kept.is_closed() && kept.present().is_none());
    }
}
