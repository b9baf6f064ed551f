//! The screen: a title, the table, and the meaning of the keys.

use std::iter;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Row, Table, TableState};

use super::columns::{Column, Columns};
use super::state::State;
use crate::text::{cells, printable};

/// The lines of the screen that are no rows: the title, the head and the foot.
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
    let server = printable(server);
    let text = format!("{server}  {pattern}  {}  by {order}", state.said());
    frame.render_widget(Line::from(text).bold(), title);

    let rows = state.rows();
    let widest = rows.iter().map(|lock| cells(&printable(&lock.key))).max();
    let columns = Columns::fitting(usize::from(table.width), widest.unwrap_or_default());
    let lines = rows.into_iter().map(|lock| {
        let style = match lock.waiting_processes {
            0 => Style::new(),
            _ => Style::new().yellow(),
        };
        Row::new(columns.row(lock)).style(style)
    });
    let others = columns.others.iter();
    let head = iter::once("KEY".to_owned()).chain(others.clone().map(Column::head));
    let widths = iter::once(columns.key).chain(others.map(|column| column.width));
    let widths = widths.map(|width| u16::try_from(width).unwrap_or(u16::MAX));
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
