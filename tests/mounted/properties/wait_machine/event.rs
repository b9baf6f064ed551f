//! The possible events of a local queue, and the order of its waiters.

use std::time::Duration;

use proptest::prelude::*;

use crate::base::error::FailureClass;
use crate::base::options::QueueOptions;

/// The possible events. A number selects one of the values to which the event can apply.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Join {
        asks_once: bool,
        is_short: bool,
        may_inherit: bool,
        reads: bool,
    },
    Leave(usize),
    Enter(usize),
    HandOff(usize),
    Release(usize),
    Lost(usize),
    /// The store executes the request in flight.
    Execute,
    /// It is answered, or its response is lost.
    Answer,
    Silence,
    /// It was not executed, and may be executed later or never.
    Fail(FailureClass),
    /// A request without a response is executed after all.
    Haunt(usize),
    /// A release is answered.
    Finish(usize),
    Message(usize),
    LoseMessage(usize),
    Another {
        comes: bool,
        reads: bool,
    },
    Reconnect,
    Listening(bool),
    MaybeFree,
    /// Time passes, and the driver may be late.
    Pass {
        millis: u64,
        is_late: bool,
    },
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let at = 0..100_usize;
    prop_oneof![
        8 => (prop::bool::weighted(0.3), prop::bool::weighted(0.3), any::<bool>(), any::<bool>())
            .prop_map(|(asks_once, is_short, may_inherit, reads)| Event::Join {
                asks_once,
                is_short,
                may_inherit: may_inherit && !reads,
                reads,
            }),
        3 => at.clone().prop_map(Event::Leave),
        4 => at.clone().prop_map(Event::Enter),
        2 => at.clone().prop_map(Event::HandOff),
        3 => at.clone().prop_map(Event::Release),
        1 => at.clone().prop_map(Event::Lost),
        4 => Just(Event::Execute),
        8 => Just(Event::Answer),
        2 => Just(Event::Silence),
        1 => prop::sample::select(vec![FailureClass::NotExecuted, FailureClass::Permanent]).prop_map(Event::Fail),
        1 => at.clone().prop_map(Event::Haunt),
        3 => at.clone().prop_map(Event::Finish),
        3 => at.clone().prop_map(Event::Message),
        1 => at.prop_map(Event::LoseMessage),
        3 => any::<[bool; 2]>().prop_map(|[comes, reads]| Event::Another { comes, reads }),
        1 => Just(Event::Reconnect),
        1 => any::<bool>().prop_map(Event::Listening),
        1 => Just(Event::MaybeFree),
        5 => (0..2_500_u64, prop::bool::weighted(0.2))
            .prop_map(|(millis, is_late)| Event::Pass { millis, is_late }),
    ]
}

pub(super) fn any_queueing() -> impl Strategy<Value = QueueOptions> {
    prop::sample::select(vec![0, 1, 16]).prop_map(|turns| QueueOptions {
        heartbeat: Duration::from_secs(1),
        turns,
        outage: Duration::MAX,
    })
}
