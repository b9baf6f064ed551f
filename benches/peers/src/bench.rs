//! The environment of a measure: a server, the selected contestants, and a place for its numbers.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;

use crate::contestant::Shared;
use crate::kind::Kind;
use crate::report::Report;
use crate::server::Server;

/// The options that all measures share.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// Only these contestants (the controls always take part)
    #[arg(long, global = true, value_delimiter = ',')]
    pub(crate) only: Vec<Kind>,
}

/// One run of one measure.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) server: Server,
    common: Common,
}

impl Bench {
    pub(crate) async fn start(common: &Common) -> Result<Bench> {
        Ok(Bench {
            server: Server::start().await?,
            common: common.clone(),
        })
    }

    pub(crate) fn report(&self, measure: &'static str) -> Report {
        Report::new(measure)
    }

    /// The contestants that can take part and were selected, and the control.
    pub(crate) fn choose(&self, takes_part: fn(Kind) -> bool, control: Kind) -> Vec<Kind> {
        let only = &self.common.only;
        let wanted = |kind: &Kind| only.is_empty() || only.contains(kind) || *kind == control;
        let all = Kind::value_variants().iter().copied();
        all.filter(|kind| takes_part(*kind))
            .filter(wanted)
            .collect()
    }

    /// The same contestants, each with its own connection and with its scripts loaded.
    pub(crate) async fn connect(
        &self,
        takes_part: fn(Kind) -> bool,
        control: Kind,
    ) -> Result<Vec<(Kind, Shared)>> {
        let mut contestants = Vec::new();
        for kind in self.choose(takes_part, control) {
            let contestant = kind.connect(&self.server.url()).await?;
            contestant
                .section(&format!("warm-up:{}", kind.name()))
                .await?;
            contestants.push((kind, contestant));
        }
        Ok(contestants)
    }
}

/// The indices of `count` contestants in an order that changes from round to round.
pub(crate) fn turns(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (turn + round) % count)
}

/// A pause of 20 to 120 ms that differs from round to round, so that it is not in step with a poller.
pub(crate) fn uneven_pause(round: usize) -> Duration {
    Duration::from_millis(20 + (round as u64 * 61) % 101)
}
