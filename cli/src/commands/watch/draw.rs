//! The screen: a title, the table or one lock, and the meaning of the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{List, ListState, Paragraph};

use super::state::{Detail, State};
use crate::columns::Columns;
use crate::text::printable;

/// The lines of the screen that are no rows: the title, the head and the foot.
pub(crate) const LINES_AROUND_ROWS: u16 = 3;

/// The width from which on a key may be cut.
const MIN_KEY_WIDTH: usize = 20;

pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, server: &str) {
    let parts = [
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ];
    let [title, body, foot] = Layout::vertical(parts).areas(frame.area());
    let server = printable(server);
    let (text, keys) = match state.detail() {
        Some(detail) => {
            draw_detail(frame, detail, body);
            let key = printable(&detail.key);
            (format!("{server}  {key}"), "q quit  esc back  up/down move")
        }
        None => {
            draw_table(frame, state, body);
            let patterns = state.patterns().join(" ");
            let (patterns, order) = (printable(&patterns), state.order().name());
            let text = format!("{server}  {patterns}  {}  by {order}", state.said());
            (text, table_keys(state))
        }
    };
    frame.render_widget(Line::from(text).bold(), title);
    let said = match (state.typed(), state.error()) {
        (Some(typed), _) => Line::from(format!("keys with: {typed}_")),
        (None, Some(error)) => Line::from(printable(error).into_owned()).red(),
        (None, None) => Line::from(keys).dim(),
    };
    frame.render_widget(said, foot);
}

fn table_keys(state: &State) -> &'static str {
    match state.is_filtered() {
        false => "q quit  up/down move  enter show  s sort  / filter  r sweep again",
        true => "q quit  esc clear  up/down move  enter show  s sort  / filter  r sweep again",
    }
}

fn draw_table(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let parts = [Constraint::Length(1), Constraint::Min(0)];
    let [head, body] = Layout::vertical(parts).areas(area);
    let rows = state.rows();
    let columns = Columns::fitting(
        Some(usize::from(area.width)),
        MIN_KEY_WIDTH,
        rows.iter().copied(),
    );
    let lines = rows.iter().map(|lock| {
        let line = Line::from(columns.row_on_screen(lock));
        match lock.waiting_processes {
            0 => line,
            _ => line.yellow(),
        }
    });
    frame.render_widget(Line::from(columns.head()).dim(), head);
    let lines = List::new(lines).highlight_style(Style::new().reversed());
    let mut at = ListState::default().with_selected(Some(state.selected()));
    frame.render_stateful_widget(lines, body, &mut at);
}

fn draw_detail(frame: &mut Frame<'_>, detail: &Detail, area: Rect) {
    let above = u16::try_from(detail.above).unwrap_or(u16::MAX);
    let text = Paragraph::new(&*detail.text).scroll((above, 0));
    frame.render_widget(text, area);
}
