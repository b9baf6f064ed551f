//! Durations as the arguments write them: one whole number and one unit.

use std::time::Duration;

/// The units and how many milliseconds each has.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Reads `250ms`, `10s`, `1m`, `2h` or `1d`.
///
/// Stricter than the crates that read durations for people: there `1M` is a month, and `1 0s` is
/// ten seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.len() - text.trim_start_matches(is_digit).len());
    let millis_in = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, millis)| millis);
    let Some(millis_in) = millis_in.filter(|_| !number.is_empty()) else {
        return Err(format!(
            "`{text}` is no duration; write a whole number and a unit: `250ms`, `10s`, `1m`, `2h` \
             or `1d`"
        ));
    };
    let millis = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*millis_in));
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is too long"))
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_unit_is_a_duration() {
        for (text, millis) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("1m", 60_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0s", 0),
            ("007s", 7_000),
            ("18446744073709551615ms", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            " ",
            "10",
            "s",
            "10 s",
            " 10s",
            "10s ",
            "1m30s",
            "1.5s",
            "-1s",
            "+1s",
            "1M",
            "10S",
            "10µs",
            "5us",
            "١s",
            "18446744073709551615s",
            "99999999999999999999ms",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
