//! The common code of the benches: contestants that take turns, and the output of their times.
//!
//! The speed of the machine drifts. So a contestant is compared only with another one that ran in the same round, in an
//! order that changes from round to round.

#![allow(dead_code, reason = "each bench uses a part of it")]

use std::time::{Duration, Instant};

/// The times of one contestant.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) name: &'static str,
    samples: Vec<Duration>,
}

impl Times {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            samples: Vec::new(),
        }
    }

    /// Runs one piece of work and keeps its time.
    pub(crate) async fn sample<F: Future>(&mut self, work: F) -> F::Output {
        let start = Instant::now();
        let output = work.await;
        self.samples.push(start.elapsed());
        output
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    pub(crate) fn quantile(&self, q: f64) -> Duration {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let at = (q * (sorted.len().max(1) - 1) as f64) as usize;
        sorted.get(at).copied().unwrap_or_default()
    }
}

/// Prints each contestant with its ratio to the first one, the control.
pub(crate) fn report(title: &str, contestants: &[&Times]) {
    println!("\n{title}");
    println!(
        "{:<44} {:>9} {:>9} {:>9} {:>8}",
        "", "p10", "median", "p90", "ratio"
    );
    let control = contestants
        .first()
        .map_or(Duration::ZERO, |first| first.median());
    for times in contestants {
        println!(
            "{:<44} {:>6.1} µs {:>6.1} µs {:>6.1} µs {:>8.3}",
            times.name,
            micros(times.quantile(0.1)),
            micros(times.median()),
            micros(times.quantile(0.9)),
            micros(times.median()) / micros(control),
        );
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
