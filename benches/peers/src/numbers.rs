//! Medians.

use std::time::Duration;

/// The value below which the part `q` of all values lies; NaN if there are none.
pub(crate) fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = (q * (sorted.len().max(1) - 1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The median of each column.
pub(crate) fn medians<const N: usize>(rows: &[[f64; N]]) -> [f64; N] {
    std::array::from_fn(|at| {
        let column: Vec<f64> = rows.iter().map(|row| row[at]).collect();
        median(&column)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_value_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 1.0), 3.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn columns_have_medians_of_their_own() {
        assert_eq!(
            medians(&[[1.0, 30.0], [2.0, 10.0], [3.0, 20.0]]),
            [2.0, 20.0]
        );
    }
}
