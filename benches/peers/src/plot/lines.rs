//! One line for each contestant over the settings, on a logarithmic axis, with its name at its end.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Chart, FONT, GRID, TEXT, TITLE, colour, ink, number};

const SIZE: (u32, u32) = (860, 520);
/// The distance between two names, in pixels.
const APART: i32 = 17;

type Series = [(String, Vec<(usize, f64)>)];

pub(super) fn draw(path: &Path, chart: &Chart, settings: &[String], series: &Series) -> Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let painted = paint(&root, chart, settings, series);
    painted.map_err(|error| anyhow!("{}: {error}", path.display()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn paint(
    root: &Area<'_>,
    chart: &Chart,
    settings: &[String],
    series: &Series,
) -> Result<(), Box<dyn std::error::Error>> {
    let logs = || {
        let values = series.iter().flat_map(|(_, points)| points);
        values.map(|(_, value)| value.max(1e-9).log10())
    };
    let bottom = logs().fold(f64::INFINITY, f64::min).floor();
    let top = logs().fold(f64::NEG_INFINITY, f64::max).ceil();
    let last = settings.len() as f64 - 1.0;
    let setting = |at: &f64| {
        let whole = (at.fract().abs() < 1e-6).then_some(*at as usize);
        whole
            .and_then(|at| settings.get(at))
            .cloned()
            .unwrap_or_default()
    };

    root.fill(&WHITE)?;
    let mut axes = ChartBuilder::on(root)
        .caption(&chart.title, (FONT, TITLE))
        .margin(12)
        .margin_right(190)
        .x_label_area_size(34)
        .y_label_area_size(84)
        .build_cartesian_2d(0.0..last, bottom..top)?;
    axes.configure_mesh()
        .disable_x_mesh()
        .x_labels(settings.len())
        .x_label_formatter(&setting)
        .y_labels((top - bottom) as usize + 1)
        .y_label_formatter(&|at| number(10_f64.powf(*at)))
        .y_desc(&chart.axis)
        .label_style((FONT, TEXT))
        .axis_desc_style((FONT, TEXT))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let mut ends = Vec::new();
    for (name, points) in series {
        let points: Vec<_> = points
            .iter()
            .map(|(at, value)| (*at as f64, value.max(1e-9).log10()))
            .collect();
        let stroke = colour(name).stroke_width(if name == "reentry" { 3 } else { 2 });
        axes.draw_series(LineSeries::new(points.iter().copied(), stroke))?;
        if let Some(end) = points.last() {
            ends.push((axes.backend_coord(end), name));
        }
    }
    let style = (FONT, TEXT).into_font().color(&BLACK);
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    for ((x, y), name) in spread(ends) {
        let colour = ink(name);
        let style = style.color(&colour);
        root.draw(&Text::new(name.clone(), (x + 8, y), style))?;
    }
    root.present()?;
    Ok(())
}

/// Moves names down if they would cover each other, and moves all of them up if that goes too far.
fn spread<T>(mut ends: Vec<((i32, i32), T)>) -> Vec<((i32, i32), T)> {
    ends.sort_by_key(|((_, y), _)| *y);
    let mut free = i32::MIN;
    for ((_, y), _) in &mut ends {
        *y = (*y).max(free);
        free = *y + APART;
    }
    let mut limit = SIZE.1 as i32 - 40;
    for ((_, y), _) in ends.iter_mut().rev() {
        *y = (*y).min(limit);
        limit = *y - APART;
    }
    ends
}
