//! The results.

use std::fmt;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::measures::Measure;
use crate::text::{count, printable};

/// The length of the longest bar.
const BAR_WIDTH: f64 = 40.0;

/// The times of one contestant in one measurement.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    measure: Measure,
    contestant: &'static str,
    #[serde(flatten)]
    spread: Spread,
    /// The median, in round trips.
    round_trips: f64,
    #[serde(skip)]
    times: Vec<Duration>,
}

/// The times in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Spread {
    p10_us: f64,
    median_us: f64,
    p90_us: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    server: String,
    rounds: u32,
    round_trip: Spread,
    measures: Vec<Row>,
}

impl Row {
    pub(super) fn new(measure: Measure, contestant: &'static str) -> Self {
        Self {
            measure,
            contestant,
            spread: Spread::default(),
            round_trips: 0.0,
            times: Vec::new(),
        }
    }

    pub(super) fn is_of(&self, measure: Measure, contestant: &str) -> bool {
        self.measure == measure && self.contestant == contestant
    }

    pub(super) fn add(&mut self, times: Vec<Duration>) {
        self.times.extend(times);
    }
}

impl Spread {
    fn of(times: &[Duration]) -> Self {
        let mut times: Vec<_> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        // The value in tenths, rounded down.
        let at = |tenths| {
            let last = times.len().saturating_sub(1);
            times.get(last * tenths / 10).copied().unwrap_or_default()
        };
        Self {
            p10_us: at(1),
            median_us: at(5),
            p90_us: at(9),
        }
    }
}

impl Report {
    pub(super) fn new(
        server: &str,
        rounds: u32,
        round_trips: &[Duration],
        mut measures: Vec<Row>,
    ) -> Self {
        let round_trip = Spread::of(round_trips);
        for row in &mut measures {
            row.spread = Spread::of(&row.times);
            row.round_trips = row.spread.median_us / round_trip.median_us.max(f64::MIN_POSITIVE);
        }
        Self {
            server: server.to_owned(),
            rounds,
            round_trip,
            measures,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server,
            rounds,
            round_trip,
            measures,
        } = self;
        let bold = Style::new().bold();
        let (server, median) = (printable(server), round_trip.median_us);
        writeln!(
            f,
            "{server}, {}; a round trip takes {median:.0} µs",
            count(u64::from(*rounds), "round")
        )?;
        for measure in Measure::ALL {
            let rows: Vec<_> = measures.iter().filter(|it| it.measure == measure).collect();
            if rows.is_empty() {
                continue;
            }
            writeln!(f, "\n{bold}{measure}{bold:#}")?;
            let longest = rows.iter().map(|row| row.spread.median_us);
            let longest = longest.fold(f64::MIN_POSITIVE, f64::max);
            for row in rows {
                row.write(longest, f)?;
            }
        }
        Ok(())
    }
}

impl Row {
    fn write(&self, longest: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            contestant,
            spread,
            round_trips,
            ..
        } = self;
        let Spread {
            p10_us,
            median_us,
            p90_us,
        } = spread;
        let color = match *contestant {
            "reentry" => AnsiColor::Green,
            _ => AnsiColor::Blue,
        };
        let color = Style::new().fg_color(Some(color.into()));
        // The value is not negative, and not longer than the width.
        let length = (BAR_WIDTH * median_us / longest)
            .round()
            .clamp(1.0, BAR_WIDTH);
        let bar: String = (1..=40)
            .map(|at| if f64::from(at) <= length { '█' } else { ' ' })
            .collect();
        writeln!(
            f,
            "  {contestant}  {color}{bar}{color:#} {median_us:>8.0} µs  ({p10_us:.0} to {p90_us:.0}), {round_trips:.1} round trips"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_to_the_round_trip() {
        let times = |all: &[u64]| {
            all.iter()
                .map(|&us| Duration::from_micros(us))
                .collect::<Vec<_>>()
        };
        let mut row = Row::new(Measure::Pair, "reentry");
        row.add(times(&[300, 100, 200]));
        let report = Report::new("host:1", 1, &times(&[50, 100, 150]), vec![row]);
        assert_eq!(report.measures[0].spread.median_us.round(), 200.0);
        assert_eq!(report.measures[0].round_trips, 2.0);
        let text = report.to_string();
        assert!(
            text.contains("200 µs  (100 to 200), 2.0 round trips"),
            "{text}"
        );
        assert!(!text.contains("hand"), "{text}");
    }
}
