//! The timeline of a run: sections per second, and below them every fault and every loss.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::args::Args;
use crate::clock::SECOND;
use crate::fault::KINDS;
use crate::history::History;

const FONT: &str = "sans-serif";
const TEXT: i32 = 13;
const TITLE: i32 = 18;
const GRID: RGBColor = RGBColor(225, 225, 225);
const SECTIONS: RGBColor = RGBColor(31, 99, 191);
const FAULT: RGBColor = RGBColor(90, 90, 90);
const LOSS: RGBColor = RGBColor(200, 60, 40);
/// The height of one row of marks, in pixels.
const ROW: u32 = 17;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

pub(crate) fn draw(path: &Path, args: &Args, history: &History) -> Result<()> {
    let rows = KINDS.len() as u32 + 1;
    let root = SVGBackend::new(path, (1100, 330 + rows * ROW)).into_drawing_area();
    let painted = paint(&root, args, history);
    painted.map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn paint(
    root: &Area<'_>,
    args: &Args,
    history: &History,
) -> Result<(), Box<dyn std::error::Error>> {
    let time = |at: u64| at.saturating_sub(history.start) as f64 / SECOND as f64;
    let entries: Vec<f64> = history
        .sections()
        .iter()
        .map(|(_, hold)| time(hold.entered))
        .collect();
    let last = entries
        .iter()
        .copied()
        .fold(time(history.healed), f64::max)
        .ceil();
    // An hour gets no more points than it has pixels.
    let width = (last / 500.0).ceil().max(1.0);
    let mut counts = vec![0.0; (last / width) as usize + 1];
    for at in entries {
        counts[(at / width) as usize] += 1.0 / width;
    }
    let most = counts.iter().copied().fold(1.0, f64::max);

    root.fill(&WHITE)?;
    let (above, below) = root.split_vertically(300);
    let title = format!("Sections per second, seed {}", args.seed);
    let mut axes = ChartBuilder::on(&above)
        .caption(title, (FONT, TITLE))
        .margin(8)
        .margin_right(24)
        .y_label_area_size(230)
        .x_label_area_size(24)
        .build_cartesian_2d(0.0..last, 0.0..most * 1.05)?;
    axes.configure_mesh()
        .label_style((FONT, TEXT))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let points = counts.iter().enumerate();
    let points = points.map(|(bin, &count)| ((bin as f64 + 0.5) * width, count));
    axes.draw_series(LineSeries::new(points, SECTIONS.stroke_width(2)))?;

    let rows = KINDS.len() as f64 + 1.0;
    let mut marks = ChartBuilder::on(&below)
        .margin(8)
        .margin_right(24)
        .set_label_area_size(LabelAreaPosition::Left, 230)
        .build_cartesian_2d(0.0..last, 0.0..rows)?;
    let style = (FONT, TEXT).into_font().color(&BLACK);
    let style = style.pos(Pos::new(HPos::Right, VPos::Center));
    let names = KINDS.iter().map(|kind| kind.name()).chain(["lock lost"]);
    for (row, name) in names.enumerate() {
        let middle = rows - row as f64 - 0.5;
        marks.draw_series([PathElement::new([(0.0, middle), (last, middle)], GRID)])?;
        let (x, y) = marks.backend_coord(&(0.0, middle));
        root.draw(&Text::new(name, (x - 8, y), style.clone()))?;
    }
    for fault in &history.faults {
        let row = KINDS
            .iter()
            .position(|kind| *kind == fault.kind)
            .unwrap_or(0);
        let middle = rows - row as f64 - 0.5;
        // A fault that is over immediately is visible too.
        let end = time(fault.end).max(time(fault.start) + last / 600.0);
        let corners = [(time(fault.start), middle - 0.3), (end, middle + 0.3)];
        marks.draw_series([Rectangle::new(corners, FAULT.filled())])?;
    }
    for (_, hold) in history.sections() {
        if let Some((at, _)) = hold.lost {
            let line = [(time(at), 0.2), (time(at), 0.8)];
            marks.draw_series([PathElement::new(line, LOSS)])?;
        }
    }
    root.present()?;
    Ok(())
}
