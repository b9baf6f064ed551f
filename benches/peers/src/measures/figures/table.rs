//! The table: for each figure its contestants, each with its ratio to the first one, the control.

use crate::report::Report;

pub(super) struct Table(Report);

impl Table {
    pub(super) fn new(report: Report) -> Self {
        Self(report)
    }

    /// The values of one figure. The first contestant is the control.
    pub(super) fn add(&mut self, figure: &str, values: &[(&str, f64)]) {
        let control = values.first().map_or(f64::NAN, |(_, value)| *value);
        for (at, &(contestant, value)) in values.iter().enumerate() {
            let ratio = value / control;
            let mut row = vec![("value", "", value)];
            if at > 0 && ratio.is_finite() {
                row.push(("ratio to control", "", ratio));
            }
            self.0.add(figure, contestant, &row);
        }
    }

    pub(super) fn print(&self) {
        self.0.print();
    }
}
