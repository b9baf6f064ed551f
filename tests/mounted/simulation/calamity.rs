//! The events that affect the server and the processes while they work.

use tokio::time::{Instant, advance, sleep};

use super::climate::{Fate, hold_up, millis, one_in};
use super::process::{Process, World};
use super::program::KEYS;
use crate::base::key::LockKey;
use crate::store::{ForceRelease, Inspect, Snapshot};

#[derive(Clone, Copy, Debug)]
enum Calamity {
    Cut,
    /// The responses to one process are slow, and then there are none for longer than most leases.
    Fade,
    Deafen,
    /// The inboxes end one after the other, for a while.
    Flap,
    Restart,
    Block,
    Forget,
    ForgetAndRestart,
    TakeAway,
    SetAhead,
    SetBack,
    Pause,
    Kill,
}

impl World {
    /// The events that are possible in this climate.
    fn calamities(&self) -> Vec<Calamity> {
        use Calamity::{
            Block, Cut, Deafen, Fade, Flap, Forget, ForgetAndRestart, Kill, Pause, Restart,
            SetAhead, SetBack, TakeAway,
        };
        let climate = self.climate;
        let groups: [(bool, &[Calamity]); 10] = [
            (climate.network, &[Cut, Cut, Fade]),
            (climate.messages, &[Deafen]),
            (climate.flaps, &[Flap]),
            (climate.restarts, &[Restart, Block]),
            (climate.data_loss, &[Forget, TakeAway]),
            (climate.data_loss && climate.restarts, &[ForgetAndRestart]),
            (climate.clock_ahead, &[SetAhead]),
            (climate.clock_back, &[SetBack]),
            (climate.pauses, &[Pause]),
            (climate.kills, &[Kill]),
        ];
        let present = groups.into_iter().filter(|(present, _)| *present);
        present.flat_map(|(_, kinds)| kinds).copied().collect()
    }

    /// One calamity after the other, until the end.
    pub(super) async fn rage(&self, crew: &mut [Process]) {
        let kinds = self.calamities();
        while Instant::now() < self.end {
            sleep(millis(100..=3_000)).await;
            if kinds.is_empty() || self.server.is_calm() {
                continue;
            }
            let kind = kinds[fastrand::usize(0..kinds.len())];
            self.ledger.note(format_args!("{kind:?}"));
            self.befall(kind, crew).await;
        }
    }

    async fn befall(&self, kind: Calamity, crew: &mut [Process]) {
        let server = &self.server;
        let victim = fastrand::usize(0..crew.len());
        match kind {
            Calamity::Cut => crew[victim].cut(&self.ledger),
            Calamity::Fade => {
                let link = &crew[victim].link;
                let slow = Fate {
                    back: millis(20..=150),
                    ..Fate::good()
                };
                link.set_fate(Some(slow));
                sleep(millis(100..=2_000)).await;
                let none = Fate {
                    arrives: false,
                    ..Fate::good()
                };
                link.set_fate(Some(none));
                sleep(millis(300..=6_000)).await;
                link.set_fate(None);
            }
            Calamity::Deafen => crew[victim].link.deafen(),
            Calamity::Flap => {
                for _ in 0..fastrand::u32(1..40) {
                    let victim = fastrand::usize(0..crew.len());
                    crew[victim].link.flap();
                    sleep(millis(1..=300)).await;
                }
            }
            Calamity::Restart => self.restart(crew, false).await,
            Calamity::ForgetAndRestart => self.restart(crew, true).await,
            Calamity::Block => server.block(millis(10..=3_000)),
            Calamity::Forget => server.forget(),
            Calamity::TakeAway => {
                let key = KEYS[fastrand::usize(0..KEYS.len())];
                let key = LockKey::new("", key).expect("a key");
                let seen = server.ask(Inspect::of(&key)).await;
                if let Some(seen) = seen.map(Snapshot::seen) {
                    server.ask(ForceRelease { key, seen }).await;
                }
            }
            Calamity::SetAhead => server.set_clock_ahead(hold_up()),
            Calamity::SetBack => server.set_clock_back(hold_up()),
            Calamity::Pause => advance(hold_up()).await,
            Calamity::Kill => {
                let next = Process::start(victim + crew.len(), self);
                std::mem::replace(&mut crew[victim], next).kill(&self.ledger);
            }
        }
    }

    /// All connections end, and for a while no new ones can be opened.
    async fn restart(&self, crew: &[Process], forgets: bool) {
        self.server.set_down(true);
        for process in crew {
            process.link.cut(true, true);
        }
        if forgets {
            self.server.forget();
        }
        sleep(if one_in(4) {
            hold_up()
        } else {
            millis(1..=500)
        })
        .await;
        self.server.set_down(false);
    }
}
