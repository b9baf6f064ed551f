//! The screen: a title, the table, and what the keys do.

use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    style::{Style, Stylize},
    text::Line,
    widgets::{Block, Row, Table, TableState},
};

use super::state::State;
use crate::view::{LockView, printable};

/// What of the screen is no row: the title, the head and the foot.
pub(crate) const BESIDE: u16 = 3;

pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, server: &str) {
    let parts = [
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ];
    let [title, table, foot] = Layout::vertical(parts).areas(frame.area());
    let pattern = printable(state.pattern());
    let order = state.order().name();
    let text = format!("{server}  {pattern}  {}  by {order}", state.said());
    frame.render_widget(Line::from(text).bold(), title);

    let rows = state.rows();
    let widest = rows.iter().map(|lock| printable(&lock.key).chars().count());
    let widest = u16::try_from(widest.max().unwrap_or_default()).unwrap_or(u16::MAX);
    let widths = [
        Constraint::Length(widest.clamp(3, 60)),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(14),
        Constraint::Length(5),
        Constraint::Length(10),
        Constraint::Length(7),
        Constraint::Length(7),
    ];
    let head = [
        "KEY", "MODE", "HOLDERS", "OWNER", "DEPTH", "LEASE", "HELD", "WAITING",
    ];
    let lines = rows.into_iter().map(row);
    let lines = Table::new(lines, widths)
        .header(Row::new(head).style(Style::new().dim()))
        .row_highlight_style(Style::new().reversed())
        .block(Block::new());
    let mut at = TableState::new().with_selected(state.selected());
    frame.render_stateful_widget(lines, table, &mut at);

    let said = match (state.typed(), state.error()) {
        (Some(typed), _) => Line::from(format!("keys with: {typed}_")),
        (None, Some(error)) => Line::from(printable(error).into_owned()).red(),
        (None, None) => Line::from("q quit  up/down move  s sort  / filter  r sweep again").dim(),
    };
    frame.render_widget(said, foot);
}

fn row(lock: &LockView) -> Row<'static> {
    let style = match lock.waiting_processes {
        0 => Style::new(),
        _ => Style::new().yellow(),
    };
    let cells = [
        printable(&lock.key).into_owned(),
        lock.mode.to_owned(),
        format!("{:>7}", lock.holder_count),
        lock.owner(),
        format!("{:>5}", lock.depth()),
        format!("{:>10}", lock.lease_left()),
        format!("{:>7}", lock.held_for()),
        format!("{:>7}", lock.waiting_processes),
    ];
    Row::new(cells).style(style)
}
