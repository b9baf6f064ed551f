//! The decisions of a renewal, case by case.

use self::Input::*;
use self::Output::*;
use super::By::*;
use super::*;

const MS: Duration = Duration::from_millis(1);
const RESPONSE_TIMEOUT: u32 = 1_000;
/// The end of a lease that limits nothing.
const FAR: u32 = 30_000;

/// The event for the renewal. Instants are in ms.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// The renewal decides on its next step.
    Look,
    /// The renewal decides on its next step while there is no connection.
    LookCut,
    Connected,
    Confirming,
    /// An attempt that was sent at this instant has failed.
    Fails(By, u32, Effect),
    /// The connection of the attempt that was sent at this instant was lost.
    FailsCut(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Nothing,
    Sends,
    /// One more attempt, in addition to those without a response since then.
    SendsBeside(u32),
    WaitsUntil(u32),
    GoesOn {
        is_news: bool,
    },
    GivesWay {
        until: u32,
    },
}

struct Case {
    claim: &'static str,
    deadline: u32,
    steps: &'static [(u32, Input, Output)],
}

impl Case {
    fn run(&self) {
        let began = Instant::now();
        let at = |ms: u32| began + ms * MS;
        let ms = |at: Instant| u32::try_from((at - began).as_millis()).unwrap();
        let mut renewal = Renewal::new(RESPONSE_TIMEOUT * MS, began);
        for (now, input, expected) in self.steps {
            let mut fails = |by, sent, effect, is_cut| {
                let failure = AttemptFailure {
                    by,
                    sent: at(sent),
                    effect,
                    is_cut,
                };
                let Failed { is_news, gives_way } = renewal.failed(failure, at(*now));
                let gives_way = gives_way.map(|until| GivesWay { until: ms(until) });
                gives_way.unwrap_or(GoesOn { is_news })
            };
            let output = match *input {
                Fails(by, sent, effect) => fails(by, sent, effect, false),
                FailsCut(sent) => fails(Server, sent, Effect::Unknown, true),
                Look | LookCut => {
                    let is_connected = || matches!(input, Look);
                    match renewal.next(at(*now), at(self.deadline), is_connected) {
                        NextAttempt::Send { silent_since: None } => Sends,
                        NextAttempt::Send { silent_since } => {
                            SendsBeside(silent_since.map_or(0, ms))
                        }
                        NextAttempt::WaitUntil(until) => WaitsUntil(ms(until)),
                    }
                }
                Connected => {
                    renewal.connected(at(*now));
                    Nothing
                }
                Confirming => {
                    renewal.confirming();
                    Nothing
                }
            };
            assert_eq!(output, *expected, "{}: {input:?} at {now}", self.claim);
        }
    }
}

const CASES: &[Case] = &[
    Case {
        claim: "an attempt without an answer is not given up: the next one goes out beside it",
        deadline: FAR,
        steps: &[
            (0, Look, Sends),
            (0, Look, WaitsUntil(1_000)),
            (999, Look, WaitsUntil(1_000)),
            (1_000, Look, SendsBeside(0)),
            (2_000, Look, SendsBeside(0)),
            (2_000, Look, WaitsUntil(3_000)),
        ],
    },
    Case {
        claim: "two more fit into what is left of a short lease",
        deadline: 900,
        steps: &[
            (0, Look, Sends),
            (0, Look, WaitsUntil(300)),
            (300, Look, SendsBeside(0)),
            (300, Look, WaitsUntil(500)),
            (500, Look, SendsBeside(0)),
        ],
    },
    Case {
        claim: "the next attempt is 10 ms later at least, and the end of the lease is seen",
        deadline: 12,
        steps: &[
            (0, Look, Sends),
            (0, Look, WaitsUntil(10)),
            (10, Look, SendsBeside(0)),
            (10, Look, WaitsUntil(12)),
        ],
    },
    Case {
        claim: "none is sent beside one that waits for a connection",
        deadline: FAR,
        steps: &[
            (0, LookCut, Sends),
            (1_000, LookCut, WaitsUntil(2_000)),
            (2_000, Look, WaitsUntil(3_000)),
            (3_000, Look, SendsBeside(0)),
        ],
    },
    Case {
        claim: "none is sent beside one that replicas are to confirm",
        deadline: FAR,
        steps: &[
            (0, Look, Sends),
            (10, Confirming, Nothing),
            (1_000, Look, WaitsUntil(2_000)),
            (
                1_500,
                Fails(Replicas, 0, Effect::Unknown),
                GivesWay { until: 1_510 },
            ),
        ],
    },
    Case {
        claim: "each silence is told once, and so is each failure after it",
        deadline: FAR,
        steps: &[
            (0, Look, Sends),
            (1_000, Look, SendsBeside(0)),
            (
                1_100,
                Fails(Server, 0, Effect::Unknown),
                GoesOn { is_news: false },
            ),
            (2_000, Look, Sends),
            (
                2_100,
                Fails(Server, 1_000, Effect::Unknown),
                GoesOn { is_news: true },
            ),
            (3_000, Look, Sends),
            (4_000, Look, SendsBeside(3_000)),
        ],
    },
    Case {
        claim: "after a failure that may be this lock's another one is next for half a response timeout",
        deadline: FAR,
        steps: &[
            (0, Look, Sends),
            (
                100,
                Fails(Server, 0, Effect::Unknown),
                GivesWay { until: 500 },
            ),
        ],
    },
    Case {
        claim: "a refusal gives way, and a late one for a moment",
        deadline: FAR,
        steps: &[
            (0, Look, Sends),
            (
                800,
                Fails(Server, 0, Effect::Refused),
                GivesWay { until: 810 },
            ),
        ],
    },
    Case {
        claim: "a lost connection is no reason to wait",
        deadline: FAR,
        steps: &[
            (0, Look, Sends),
            (100, FailsCut(0), GivesWay { until: 110 }),
        ],
    },
    Case {
        claim: "the last of several attempts to fail decides",
        deadline: FAR,
        steps: &[
            (0, Look, Sends),
            (1_000, Look, SendsBeside(0)),
            (1_100, FailsCut(0), GoesOn { is_news: false }),
            (
                1_200,
                Fails(Server, 1_000, Effect::Unknown),
                GivesWay { until: 1_500 },
            ),
        ],
    },
    Case {
        claim: "it goes on while nothing is executed, and a connection ends the pause",
        deadline: FAR,
        steps: &[
            (0, Look, Sends),
            (5, Fails(Server, 0, Effect::None), GoesOn { is_news: true }),
            (25, LookCut, Sends),
            (
                30,
                Fails(Server, 25, Effect::None),
                GoesOn { is_news: true },
            ),
            (31, Connected, Nothing),
            (31, Look, Sends),
            (31, Look, WaitsUntil(1_031)),
        ],
    },
];

#[test]
fn a_renewal_does_what_the_table_says() {
    CASES.iter().for_each(Case::run);
}

#[test]
fn a_pause_is_one_without_an_attempt_on_its_way() {
    let now = Instant::now();
    let mut renewal = Renewal::new(RESPONSE_TIMEOUT * MS, now);
    assert!(renewal.is_pausing());
    renewal.next(now, now + FAR * MS, || true);
    assert!(!renewal.is_pausing());
    let failure = AttemptFailure {
        by: Server,
        sent: now,
        effect: Effect::None,
        is_cut: false,
    };
    renewal.failed(failure, now);
    assert!(renewal.is_pausing());
    let NextAttempt::WaitUntil(until) = renewal.next(now, now + FAR * MS, || true) else {
        panic!("it asks at once");
    };
    assert!((10 * MS..=20 * MS).contains(&(until - now)));
}
