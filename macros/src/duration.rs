//! Durations in arguments: whole numbers with units, the greatest unit first.

use std::time::Duration;

/// The units, from the greatest to the smallest, with their lengths in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Parses a duration, for example `250ms`, `10s`, `1m30s`, `2h` or `1d`.
///
/// The rules are stricter than in other crates, in which `1M` is a month, and `1 0s` is ten seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refused = || {
        format!(
            "`{text}` is not a duration: write whole numbers with units, the greatest unit first: \
             `250ms`, `10s`, `1m30s`, `2h` or `1d`"
        )
    };
    let mut rest = text;
    let mut total = Some(0u64);
    let mut units = UNITS.into_iter();
    while !rest.is_empty() || text.is_empty() {
        let (number, after) = rest.split_at(rest.find(is_no_digit).unwrap_or(rest.len()));
        let (unit, after) = after.split_at(after.find(is_digit).unwrap_or(after.len()));
        // The iterator continues after the last unit, so only smaller units are left.
        let millis = units.find(|(name, _)| *name == unit);
        let (_, millis) = millis.filter(|_| !number.is_empty()).ok_or_else(refused)?;
        let part = number.parse::<u64>().ok();
        let part = part.and_then(|number| number.checked_mul(millis));
        total = total
            .zip(part)
            .and_then(|(sum, part)| sum.checked_add(part));
        rest = after;
    }
    total
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is too long"))
}

fn is_no_digit(letter: char) -> bool {
    !is_digit(letter)
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_a_duration() {
        for (text, millis) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("1m", 60_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1m30s", 90_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1h0m90s", 3_690_000),
            ("0s", 0),
            ("007s", 7_000),
            ("18446744073709551615ms", u64::MAX),
            ("18446744073709551s615ms", u64::MAX),
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
            "30s1m",
            "1s1s",
            "1m30",
            "m30s",
            "1m 30s",
            "1m-30s",
            "1ms1s",
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
            "18446744073709551s616ms",
            "99999999999999999999ms30s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
