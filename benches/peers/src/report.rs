//! The results of a measure, as a table.

/// One number.
#[derive(Clone, Debug)]
struct Row {
    /// The setting, for example "32 tasks".
    setting: String,
    contestant: String,
    metric: String,
    unit: String,
    value: f64,
}

/// The numbers of one measure.
#[derive(Debug)]
pub(crate) struct Report {
    measure: &'static str,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(measure: &'static str) -> Report {
        let rows = Vec::new();
        Report { measure, rows }
    }

    /// The numbers of one contestant in one setting: metric, unit, value.
    pub(crate) fn add(&mut self, setting: &str, contestant: &str, values: &[(&str, &str, f64)]) {
        for &(metric, unit, value) in values {
            self.rows.push(Row {
                setting: setting.to_owned(),
                contestant: contestant.to_owned(),
                metric: metric.to_owned(),
                unit: unit.to_owned(),
                value,
            });
        }
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        let columns = distinct(self.rows.iter().map(heading));
        let lines = distinct(self.rows.iter().map(|row| (&row.setting, &row.contestant)));
        let settings = self.rows.iter().map(|row| row.setting.chars().count());
        let first = settings.max().unwrap_or(0).max(18);
        println!("\n{}", self.measure);
        print!("{:<first$} {:<24}", "", "");
        for column in &columns {
            print!(" {column:>width$}", width = width(column));
        }
        println!();
        for line in lines {
            print!("{:<first$} {:<24}", line.0, line.1);
            for column in &columns {
                let here = self
                    .rows
                    .iter()
                    .find(|row| (&row.setting, &row.contestant) == line && heading(row) == *column);
                let text = here.map_or_else(|| "–".to_owned(), |row| number(row.value));
                print!(" {text:>width$}", width = width(column));
            }
            println!();
        }
    }
}

fn heading(row: &Row) -> String {
    match row.unit.as_str() {
        "" => row.metric.clone(),
        unit => format!("{} [{unit}]", row.metric),
    }
}

fn width(column: &str) -> usize {
    column.chars().count().max(9)
}

/// Formats a number with about three digits, which matches the precision of these measures.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The values in the order of their first appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
