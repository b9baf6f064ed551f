//! Horizontal bars, one for each contestant.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Chart, FONT, GRID, Scale, TEXT, TITLE, colour, number};

pub(super) fn draw(
    path: &Path,
    chart: &Chart,
    scale: Scale,
    values: &[(String, f64)],
) -> Result<()> {
    let count = values.len() as u32;
    let height = 110 + 26 * count;
    let root = SVGBackend::new(path, (860, height)).into_drawing_area();
    let painted = paint(&root, chart, scale, values);
    painted.map_err(|error| anyhow!("{}: {error}", path.display()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn paint(
    root: &Area<'_>,
    chart: &Chart,
    scale: Scale,
    values: &[(String, f64)],
) -> Result<(), Box<dyn std::error::Error>> {
    // A logarithmic axis is a linear axis of exponents. It begins and ends at a whole decade.
    let place = |value: f64| match scale {
        Scale::Linear => value,
        Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
    };
    let positive = || values.iter().map(|(_, value)| *value).filter(|v| *v > 0.0);
    let most = positive().fold(0.0, f64::max).max(1e-9);
    let least = positive().fold(f64::INFINITY, f64::min).min(most);
    let (left, right) = match scale {
        Scale::Linear => (0.0, most * 1.15),
        Scale::Log => ((least * 0.8).log10().floor(), (most * 1.5).log10().ceil()),
    };
    let ticks = match scale {
        Scale::Linear => 6,
        Scale::Log => (right - left) as usize + 1,
    };
    let unplace = |at: &f64| match scale {
        Scale::Linear => number(*at),
        Scale::Log => number(10_f64.powf(*at)),
    };

    root.fill(&WHITE)?;
    let top = values.len() as f64;
    let mut axes = ChartBuilder::on(root)
        .caption(&chart.title, (FONT, TITLE))
        .margin(12)
        .margin_right(60)
        .x_label_area_size(48)
        .y_label_area_size(195)
        .build_cartesian_2d(left..right, 0.0..top)?;
    axes.configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .x_labels(ticks)
        .x_label_formatter(&unplace)
        .x_desc(&chart.axis)
        .label_style((FONT, TEXT))
        .axis_desc_style((FONT, TEXT))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let before = (FONT, TEXT).into_font().color(&BLACK);
    let name_style = before.pos(Pos::new(HPos::Right, VPos::Center));
    let value_style = before.pos(Pos::new(HPos::Left, VPos::Center));
    for (row, (name, value)) in values.iter().enumerate() {
        // The first one is at the top.
        let middle = top - row as f64 - 0.5;
        let end = place(*value).clamp(left, right);
        let corners = [(left, middle - 0.34), (end, middle + 0.34)];
        axes.draw_series([Rectangle::new(corners, colour(name).filled())])?;
        let (x, y) = axes.backend_coord(&(end, middle));
        root.draw(&Text::new(number(*value), (x + 6, y), value_style.clone()))?;
        let (x, y) = axes.backend_coord(&(left, middle));
        root.draw(&Text::new(name.clone(), (x - 8, y), name_style.clone()))?;
    }
    root.present()?;
    Ok(())
}
