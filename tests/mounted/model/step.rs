//! The possible next steps.

use super::hold::Hold;
use super::message::{Message, Request};

/// One step. Its content is written out, so that a path can be read as a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The store executes a request.
    Execute(Request),
    /// A client reads a response.
    Receive(Request),
    /// A client reads a message.
    Hear(Message),
    /// The time of the driver of a process is reached: it sends a request for the first waiter, or takes back a grant.
    Due {
        process: u8,
    },
    /// A caller finds that it has the lock.
    Poll(Hold),
    /// The innermost entry of a body ends.
    Exit(Hold),
    /// The body ends.
    Leave(Hold),
    /// The deadline of a body has passed; it is dropped.
    Lose(Hold),
    /// Nothing happens, for one heartbeat.
    Tick,

    /// A caller that wants the lock joins.
    Arrive(Hold),
    Renew(Hold),
    Reenter(Hold),

    /// Executes the request, which will be executed once more.
    ExecuteTwice(Request),
    /// A client gives up a request. If it was not executed yet, it may still be.
    GiveUp(Request),
    LoseMessage(Message),
    /// A caller drops its future.
    Drop(Hold),
    Crash {
        process: u8,
    },
    /// The clock of the server is set back.
    SetBack,
}

impl Step {
    /// Returns whether it happens even if no caller joins and nothing goes wrong. In that case a request that was given
    /// up is lost.
    pub(crate) fn is_calm(&self) -> bool {
        match self {
            Self::Execute(request) => request.awaited,
            Self::Receive(_)
            | Self::Hear(_)
            | Self::Due { .. }
            | Self::Poll(_)
            | Self::Exit(_)
            | Self::Leave(_)
            | Self::Lose(_)
            | Self::Tick => true,
            Self::Arrive(_)
            | Self::Renew(_)
            | Self::Reenter(_)
            | Self::ExecuteTwice(_)
            | Self::GiveUp(_)
            | Self::LoseMessage(_)
            | Self::Drop(_)
            | Self::Crash { .. }
            | Self::SetBack => false,
        }
    }
}
