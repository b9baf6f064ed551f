//! Statistics over several runs.

use std::time::Duration;

/// The median: the middle value, or the mean of the two middle values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len().is_multiple_of(2)) {
        (Some(upper), true) => (sorted[middle - 1] + upper) / 2.0,
        (Some(value), false) => *value,
        (None, _) => f64::NAN,
    }
}

/// `median / worst` in ms, if there are any.
pub(crate) fn both(times: impl IntoIterator<Item = Duration>) -> String {
    let times: Vec<_> = times.into_iter().map(|it| it.as_secs_f64() * 1e3).collect();
    if times.is_empty() {
        return "–".to_owned();
    }
    let worst = times.iter().copied().fold(f64::NAN, f64::max);
    format!("{:.0} / {worst:.0}", median(&times))
}

/// `median (least to greatest)`.
pub(crate) fn spread(values: &[f64], digits: usize) -> String {
    let least = values.iter().copied().fold(f64::NAN, f64::min);
    let greatest = values.iter().copied().fold(f64::NAN, f64::max);
    format!(
        "{:.digits$} ({least:.digits$} to {greatest:.digits$})",
        median(values)
    )
}
