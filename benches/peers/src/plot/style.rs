//! The style of all charts: this project is blue, references are dark, other crates are light.

use clap::ValueEnum;
use plotters::style::RGBColor;

use crate::kind::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
}

pub(super) const FONT: &str = "sans-serif";
pub(super) const TEXT: i32 = 15;
pub(super) const TITLE: i32 = 19;
pub(super) const GRID: RGBColor = RGBColor(225, 225, 225);

/// The words on a chart.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// The measured quantity, with its unit.
    pub(super) axis: String,
}

impl Chart {
    pub(super) fn new(title: &str, metric: &str, unit: &str, scale: Scale) -> Chart {
        let mut axis = match unit {
            "" => metric.to_owned(),
            unit => format!("{metric} [{unit}]"),
        };
        if scale == Scale::Log {
            axis.push_str(", logarithmic");
        }
        let title = title.to_owned();
        Chart { title, axis }
    }
}

pub(super) fn colour(contestant: &str) -> RGBColor {
    match Kind::from_str(contestant, false) {
        Ok(Kind::Reentry) => RGBColor(31, 99, 191),
        Ok(Kind::Classic | Kind::InProcessQueue | Kind::Blpop | Kind::RedissonProtocol)
        | Err(_) => RGBColor(90, 90, 90),
        Ok(_) => RGBColor(178, 178, 178),
    }
}

/// A colour for the name of a line, dark enough to be readable.
pub(super) fn ink(contestant: &str) -> RGBColor {
    let RGBColor(red, green, blue) = colour(contestant);
    let darker = |part: u8| part / 3 * 2;
    RGBColor(darker(red), darker(green), darker(blue))
}

/// Formats a number with about three digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => grouped(value.round()),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// 12345 as "12 345".
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
