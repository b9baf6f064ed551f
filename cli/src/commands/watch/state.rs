//! The state of the screen, and the effect of each key: without a terminal, a clock or a server.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::top::{Order, Top};
use crate::view::LockView;

/// The number of locks that can be scrolled through.
const MOST: usize = 500;

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct State {
    order: Order,
    pattern: String,
    /// The text that is typed as the next pattern.
    typed: Option<String>,
    shown: Top,
    /// The locks that the present sweep has found.
    found: Top,
    found_count: usize,
    /// The number of locks that the last complete sweep found.
    count: Option<usize>,
    progress: f64,
    selected: usize,
    error: Option<String>,
}

/// The effect of a key, besides its effect on the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Quit,
    /// Begins another sweep, maybe with another pattern.
    Sweep,
}

/// News of the locks.
#[derive(Debug)]
pub(crate) enum News {
    /// The locks that a sweep has found, and the part of all keys that it has read.
    Page(Vec<LockView>, f64),
    /// The end of a sweep.
    End,
    /// A lock on the screen that was read again.
    Again(String, Option<LockView>),
    Failed(String),
}

impl State {
    pub(crate) fn new(pattern: &str, order: Order) -> Self {
        Self {
            order,
            pattern: pattern.to_owned(),
            typed: None,
            shown: Top::new(order, MOST),
            found: Top::new(order, MOST),
            found_count: 0,
            count: None,
            progress: 0.0,
            selected: 0,
            error: None,
        }
    }

    pub(crate) fn pattern(&self) -> &str {
        &self.pattern
    }

    pub(crate) fn typed(&self) -> Option<&str> {
        self.typed.as_deref()
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn selected(&self) -> usize {
        self.selected
    }

    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The locks in their order.
    pub(crate) fn rows(&self) -> Vec<&LockView> {
        self.shown.first()
    }

    /// The title: the number of locks, and the progress of the sweep.
    pub(crate) fn said(&self) -> String {
        let percent = self.progress * 100.0;
        match self.count {
            Some(count) => format!("{count} locks, sweep {percent:.0} %"),
            None => format!("{} locks so far, sweep {percent:.0} %", self.found_count),
        }
    }

    pub(crate) fn hear(&mut self, news: News) {
        match news {
            News::Page(page, progress) => {
                self.error = None;
                self.progress = progress;
                self.found_count += page.len();
                for lock in page {
                    self.found.put(lock.clone());
                    self.shown.put(lock);
                }
            }
            News::End => {
                self.count = Some(self.found_count);
                self.found_count = 0;
                self.shown = std::mem::replace(&mut self.found, Top::new(self.order, MOST));
            }
            News::Again(_, Some(lock)) => self.shown.put(lock),
            News::Again(key, None) => self.shown.remove(&key),
            News::Failed(error) => self.error = Some(error),
        }
        self.select(self.selected);
    }

    /// Handles a key, with this number of rows on the screen.
    pub(crate) fn press(&mut self, key: KeyEvent, screen: usize) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        if let Some(typed) = self.typed.take() {
            return self.type_on(typed, key.code);
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('r') => return Action::Sweep,
            KeyCode::Char('/') => self.typed = Some(String::new()),
            KeyCode::Char('s') => self.turn(),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected.saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::PageDown => self.select(self.selected.saturating_add(screen)),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(screen)),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            _ => {}
        }
        Action::Nothing
    }

    /// Handles a key while a pattern is typed.
    fn type_on(&mut self, mut typed: String, code: KeyCode) -> Action {
        match code {
            KeyCode::Esc => return Action::Nothing,
            KeyCode::Enter => {
                self.pattern = pattern(&typed);
                self.shown = Top::new(self.order, MOST);
                return Action::Sweep;
            }
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Char(letter) => typed.push(letter),
            _ => {}
        }
        self.typed = Some(typed);
        Action::Nothing
    }

    /// Begins another sweep from the start.
    pub(crate) fn begin(&mut self) {
        self.found = Top::new(self.order, MOST);
        self.found_count = 0;
        self.count = None;
        self.progress = 0.0;
    }

    fn turn(&mut self) {
        self.order = self.order.next();
        self.shown.reorder(self.order);
        self.found.reorder(self.order);
    }

    fn select(&mut self, row: usize) {
        let last = self.shown.count().saturating_sub(1);
        self.selected = row.min(last);
    }
}

/// The pattern for a typed text: a pattern stays unchanged, and any other text is searched for inside the key.
fn pattern(typed: &str) -> String {
    match typed {
        "" => "*".to_owned(),
        typed if typed.contains(['*', '?', '[']) => typed.to_owned(),
        typed => format!("*{typed}*"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::tests::lock;

    fn press(state: &mut State, code: KeyCode) -> Action {
        state.press(KeyEvent::new(code, KeyModifiers::NONE), 10)
    }

    fn keys(state: &State) -> Vec<&str> {
        state.rows().into_iter().map(|it| it.key.as_str()).collect()
    }

    fn page(state: &mut State, locks: &[(&str, u64)]) {
        let page = locks.iter().map(|(key, waiting)| lock(key, *waiting));
        state.hear(News::Page(page.collect(), 0.5));
    }

    #[test]
    fn those_with_the_most_waiters_come_first_while_the_sweep_lasts() {
        let mut state = State::new("*", Order::Waiting);
        page(&mut state, &[("a", 1), ("b", 3)]);
        page(&mut state, &[("c", 2)]);
        assert_eq!(keys(&state), ["b", "c", "a"]);
        assert_eq!(state.said(), "3 locks so far, sweep 50 %");
        state.hear(News::End);
        assert_eq!(keys(&state), ["b", "c", "a"]);
        // The next sweep removes, at its end, the locks that are gone.
        page(&mut state, &[("d", 9)]);
        assert_eq!(keys(&state), ["d", "b", "c", "a"]);
        state.hear(News::End);
        assert_eq!(
            (keys(&state), &*state.said()),
            (vec!["d"], "1 locks, sweep 50 %")
        );
    }

    #[test]
    fn a_lock_that_is_looked_at_again_changes_or_goes() {
        let mut state = State::new("*", Order::Waiting);
        page(&mut state, &[("a", 1), ("b", 3)]);
        state.hear(News::Again("a".to_owned(), Some(lock("a", 7))));
        assert_eq!(keys(&state), ["a", "b"]);
        state.hear(News::Again("a".to_owned(), None));
        assert_eq!(keys(&state), ["b"]);
    }

    #[test]
    fn keys_move_sort_filter_and_quit() {
        let mut state = State::new("*", Order::Waiting);
        page(&mut state, &[("a", 1), ("b", 3), ("c", 2)]);
        for (code, row) in [
            (KeyCode::Down, 1),
            (KeyCode::End, 2),
            (KeyCode::Down, 2),
            (KeyCode::Up, 1),
            (KeyCode::PageDown, 2),
            (KeyCode::Home, 0),
        ] {
            press(&mut state, code);
            assert_eq!(state.selected(), row, "{code:?}");
        }
        for _ in 0..4 {
            press(&mut state, KeyCode::Char('s'));
        }
        assert_eq!(
            (state.order(), keys(&state)),
            (Order::Key, vec!["a", "b", "c"])
        );
        for code in ['/', 'q', 'x'].map(KeyCode::Char) {
            assert_eq!(press(&mut state, code), Action::Nothing);
        }
        press(&mut state, KeyCode::Backspace);
        assert_eq!(state.typed(), Some("q"));
        assert_eq!(press(&mut state, KeyCode::Enter), Action::Sweep);
        assert_eq!((state.pattern(), state.typed()), ("*q*", None));
        assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Quit);
    }
}
