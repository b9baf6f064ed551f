//! A Prometheus that scrapes the program of a test once a minute, and evaluates the rules for alerts over the samples.
//! The minutes are those of the rules: between two scrapes, a test does what it needs a minute for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use metrics::{LocalRecorderGuard, set_default_local_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::json;

use crate::page;

/// The rules, and the other files of the page.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(page::FOLDER).join(name)
}

/// The report of `promtool` about a file.
pub(crate) fn promtool(args: [&str; 2], file: &Path) -> Output {
    let mut command = Command::new("promtool");
    command.args(args);
    match args {
        // It reads these from its input.
        ["check", "metrics"] => command.stdin(File::open(file).unwrap()),
        _ => command.arg(file),
    };
    let output = command.output();
    output.expect("promtool; `cargo xtask test` installs it, as does `apt-get install prometheus`")
}

/// The names of the alerts.
pub(crate) fn alerts() -> Vec<String> {
    let rules = std::fs::read_to_string(path("alerts.yml")).unwrap();
    let names = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

/// The page that an alert links to.
pub(crate) const RUNBOOK: &str =
    "https://github.com/OWNER/reentry/blob/main/docs/operations.md#dashboards-and-alerts";

/// An alert that fires: its name, its severity, and its summary.
pub(crate) type Fires<'a> = (&'a str, &'a str, &'a str);

/// The scrapes of the program of one test.
pub(crate) struct Scrapes {
    metrics: PrometheusHandle,
    /// The samples of each series.
    series: BTreeMap<String, BTreeMap<usize, String>>,
    count: usize,
    _recording: LocalRecorderGuard<'static>,
}

impl Scrapes {
    /// Begins with a scrape, as Prometheus does before anything has happened.
    pub(crate) fn of_this_test() -> Self {
        let recorder: &'static _ = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
        let mut scrapes = Self {
            metrics: recorder.handle(),
            series: BTreeMap::new(),
            count: 0,
            _recording: set_default_local_recorder(recorder),
        };
        scrapes.scrape();
        scrapes
    }

    pub(crate) fn scrape(&mut self) {
        for line in self.samples().lines() {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            let samples = self.series.entry(with_job(name)).or_default();
            samples.insert(self.count, value.to_owned());
        }
        self.count += 1;
    }

    /// The present samples, one in each line.
    pub(crate) fn samples(&self) -> String {
        let text = self.metrics.render();
        let is_sample = |line: &&str| !line.is_empty() && !line.starts_with('#');
        text.lines()
            .filter(is_sample)
            .map(|line| format!("{line}\n"))
            .collect()
    }

    /// # Panics
    ///
    /// Panics if there is no sample of this metric with these labels and this value.
    pub(crate) fn assert(&self, sample: &str) {
        let samples = self.samples();
        let line = format!("reentry_{sample}");
        assert!(samples.lines().any(|it| it == line), "{line} in {samples}");
    }

    /// The present sum of all series with this name.
    pub(crate) fn total(&self, name: &str) -> f64 {
        let samples = self.samples();
        let lines = samples.lines().filter(|line| line.starts_with(name));
        let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.sum()
    }

    /// # Panics
    ///
    /// Panics if other alerts than these fire at the last scrape, or fire with other texts.
    pub(crate) fn assert_fires(&self, expected: &[Fires<'_>]) {
        self.assert_fires_at(self.count - 1, expected);
    }

    /// As [`assert_fires`](Self::assert_fires), at this scrape.
    pub(crate) fn assert_fires_at(&self, scrape: usize, expected: &[Fires<'_>]) {
        let series = self.series.iter().map(|(name, samples)| {
            let sample = |at| samples.get(&at).map_or("_", String::as_str);
            let values: Vec<_> = (0..self.count).map(sample).collect();
            json!({ "series": name, "values": values.join(" ") })
        });
        let rules = alerts().into_iter().map(|alert| {
            let fires = expected.iter().filter(|(name, ..)| *name == alert);
            let fires = fires.map(|(_, severity, summary)| {
                let mut labels = json!({ "severity": severity, "job": "orders" });
                if let Some(reason) = reason(summary) {
                    labels["reason"] = reason.into();
                }
                json!({
                    "exp_labels": labels,
                    "exp_annotations": { "summary": summary, "runbook_url": RUNBOOK },
                })
            });
            json!({
                "eval_time": format!("{scrape}m"),
                "alertname": alert,
                "exp_alerts": fires.collect::<Vec<_>>(),
            })
        });
        let tests = json!({
            "rule_files": [path("alerts.yml")],
            "evaluation_interval": "1m",
            "tests": [{
                "interval": "1m",
                "input_series": series.collect::<Vec<_>>(),
                "alert_rule_test": rules.collect::<Vec<_>>(),
            }],
        });
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(tests.to_string().as_bytes()).unwrap();
        let tested = promtool(["test", "rules"], file.path());
        let said =
            String::from_utf8_lossy(&tested.stderr) + String::from_utf8_lossy(&tested.stdout);
        assert!(tested.status.success(), "{said}\n{:#?}", self.series);
    }
}

/// The series as Prometheus stores it, which adds the name of the job.
fn with_job(name: &str) -> String {
    match name.split_once('{') {
        Some((name, labels)) => format!("{name}{{job=\"orders\",{labels}"),
        None => format!("{name}{{job=\"orders\"}}"),
    }
}

/// The reason of a loss is a label. The summary has it in brackets.
fn reason(summary: &str) -> Option<&str> {
    summary
        .strip_suffix(')')?
        .rsplit_once('(')
        .map(|(_, it)| it)
}
