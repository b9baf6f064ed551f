//! The rows of all files in a folder.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::numbers::median;
use crate::report::{Row, distinct};

/// All rows, in the order in which they were written.
#[derive(Debug)]
pub(super) struct Data(Vec<Row>);

impl Data {
    pub(super) fn read(folder: &Path) -> Result<Data> {
        let entries = fs::read_dir(folder)
            .with_context(|| format!("cannot read the folder {}", folder.display()))?;
        let mut paths = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
        paths.sort();
        let mut rows = Vec::new();
        for path in &paths {
            for line in fs::read_to_string(path)?.lines() {
                let row = serde_json::from_str(line);
                rows.push(row.with_context(|| format!("{} is not ours", path.display()))?);
            }
        }
        ensure!(!rows.is_empty(), "no numbers in {}", folder.display());
        Ok(Data(rows))
    }

    pub(super) fn settings(&self, measure: &str, metric: &str) -> Vec<String> {
        distinct(self.rows(measure, metric).map(|row| row.setting.clone()))
    }

    pub(super) fn unit(&self, measure: &str, metric: &str) -> String {
        let row = self.rows(measure, metric).next();
        row.map_or_else(String::new, |row| row.unit.clone())
    }

    /// The median of each contestant in one setting.
    pub(super) fn values(&self, measure: &str, metric: &str, setting: &str) -> Vec<(String, f64)> {
        let names = distinct(self.rows(measure, metric).map(|row| row.contestant.clone()));
        let value = |name: String| {
            let all: Vec<f64> = self
                .rows(measure, metric)
                .filter(|row| row.contestant == name && row.setting == setting)
                .map(|row| row.value)
                .collect();
            (!all.is_empty()).then(|| (name, median(&all)))
        };
        names.into_iter().filter_map(value).collect()
    }

    /// For each contestant its value in each setting.
    pub(super) fn series(&self, measure: &str, metric: &str) -> Vec<(String, Vec<(usize, f64)>)> {
        let names = distinct(self.rows(measure, metric).map(|row| row.contestant.clone()));
        let mut series: Vec<_> = names.into_iter().map(|name| (name, Vec::new())).collect();
        for (at, setting) in self.settings(measure, metric).iter().enumerate() {
            for (name, value) in self.values(measure, metric, setting) {
                let line = series.iter_mut().find(|(other, _)| *other == name);
                if let Some((_, points)) = line {
                    points.push((at, value));
                }
            }
        }
        series
    }

    fn rows(&self, measure: &str, metric: &str) -> impl Iterator<Item = &Row> {
        let wanted = move |row: &&Row| row.measure == measure && row.metric == metric;
        self.0.iter().filter(wanted)
    }
}
