//! The state of the screen, and the effect of each key: without a terminal, a clock or a server.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::ranking::{Order, Top};
use crate::text::count;
use crate::view::LockView;

/// The number of locks that can be scrolled through.
const MAX_LOCKS_SHOWN: usize = 500;

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct State {
    order: Order,
    /// The patterns of the command line.
    given: Vec<String>,
    patterns: Vec<String>,
    /// The text that is typed as the next pattern.
    typed: Option<String>,
    /// The lock that is shown with its queue, instead of the table.
    detail: Option<Detail>,
    shown: Top,
    /// The locks that the present sweep has found.
    found: Top,
    found_count: u64,
    /// The number of locks that the last complete sweep found.
    count: Option<u64>,
    progress: f64,
    selected: usize,
    error: Option<String>,
}

/// A lock with its queue.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    pub(crate) key: String,
    /// Its lines, once they are known.
    pub(crate) text: String,
    /// The number of lines above the screen.
    pub(crate) above: usize,
}

/// The effect of a key, besides its effect on the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Quit,
    /// Begins another sweep, maybe with another pattern.
    Sweep,
    /// Shows a lock with its queue.
    Show(String),
    /// Shows the table again.
    Back,
}

/// What has changed in the locks, or in the one that is shown.
#[derive(Debug)]
pub(crate) enum Update {
    /// The locks that a sweep has found, and the part of all keys that it has read.
    Page(Vec<LockView>, f64),
    /// The end of a sweep.
    End,
    /// A lock on the screen that was read again.
    Again(String, Option<LockView>),
    /// The lock that is shown with its queue, in words.
    Shown(String),
    Failed(String),
}

impl State {
    pub(crate) fn new(patterns: &[String], order: Order) -> Self {
        Self {
            order,
            given: patterns.to_vec(),
            patterns: patterns.to_vec(),
            typed: None,
            detail: None,
            shown: Top::new(order, MAX_LOCKS_SHOWN),
            found: Top::new(order, MAX_LOCKS_SHOWN),
            found_count: 0,
            count: None,
            progress: 0.0,
            selected: 0,
            error: None,
        }
    }

    pub(crate) fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether Esc shows more locks.
    pub(crate) fn is_filtered(&self) -> bool {
        self.patterns != self.given
    }

    pub(crate) fn detail(&self) -> Option<&Detail> {
        self.detail.as_ref()
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
            Some(locks) => format!("{}, sweep {percent:.0} %", count(locks, "lock")),
            None => {
                let locks = count(self.found_count, "lock");
                format!("{locks} so far, sweep {percent:.0} %")
            }
        }
    }

    pub(crate) fn apply(&mut self, update: Update) {
        match update {
            Update::Page(page, progress) => {
                self.error = None;
                self.progress = progress;
                self.found_count += page.len() as u64;
                for lock in page {
                    self.found.put(lock.clone());
                    self.shown.put(lock);
                }
            }
            Update::End => {
                self.count = Some(self.found_count);
                self.found_count = 0;
                self.shown =
                    std::mem::replace(&mut self.found, Top::new(self.order, MAX_LOCKS_SHOWN));
            }
            Update::Again(_, Some(lock)) => self.shown.put(lock),
            Update::Again(key, None) => self.shown.remove(&key),
            Update::Shown(text) => {
                self.error = None;
                if let Some(detail) = &mut self.detail {
                    detail.above = detail.above.min(text.lines().count().saturating_sub(1));
                    detail.text = text;
                }
            }
            Update::Failed(error) => self.error = Some(error),
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
        if key.code == KeyCode::Char('q') {
            return Action::Quit;
        }
        if let Some(detail) = self.detail.take() {
            return self.press_in(detail, key.code, screen);
        }
        match key.code {
            KeyCode::Esc if self.is_filtered() => return self.filter(self.given.clone()),
            KeyCode::Enter => return self.open(),
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
            KeyCode::Enter if typed.is_empty() => return self.filter(self.given.clone()),
            KeyCode::Enter => return self.filter(vec![pattern(&typed)]),
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Char(letter) => typed.push(letter),
            _ => {}
        }
        self.typed = Some(typed);
        Action::Nothing
    }

    /// Handles a key while a lock is shown with its queue.
    fn press_in(&mut self, mut detail: Detail, code: KeyCode, screen: usize) -> Action {
        let last = detail.text.lines().count().saturating_sub(1);
        let above = detail.above;
        detail.above = match code {
            KeyCode::Esc | KeyCode::Enter => {
                self.error = None;
                return Action::Back;
            }
            KeyCode::Down | KeyCode::Char('j') => above + 1,
            KeyCode::Up | KeyCode::Char('k') => above.saturating_sub(1),
            KeyCode::PageDown => above + screen,
            KeyCode::PageUp => above.saturating_sub(screen),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => above,
        }
        .min(last);
        self.detail = Some(detail);
        Action::Nothing
    }

    /// Shows the selected lock with its queue.
    fn open(&mut self) -> Action {
        let Some(lock) = self.rows().get(self.selected).copied() else {
            return Action::Nothing;
        };
        let key = lock.key.clone();
        self.detail = Some(Detail {
            key: key.clone(),
            ..Detail::default()
        });
        Action::Show(key)
    }

    /// Shows the locks whose keys match these patterns.
    fn filter(&mut self, patterns: Vec<String>) -> Action {
        self.patterns = patterns;
        self.shown = Top::new(self.order, MAX_LOCKS_SHOWN);
        Action::Sweep
    }

    /// Begins another sweep from the start.
    pub(crate) fn begin(&mut self) {
        self.found = Top::new(self.order, MAX_LOCKS_SHOWN);
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
        typed if typed.contains(['*', '?', '[']) => typed.to_owned(),
        typed => format!("*{typed}*"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::tests::lock;

    fn new() -> State {
        State::new(&["*".to_owned()], Order::Waiting)
    }

    fn press(state: &mut State, code: KeyCode) -> Action {
        state.press(KeyEvent::new(code, KeyModifiers::NONE), 10)
    }

    fn keys(state: &State) -> Vec<&str> {
        state.rows().into_iter().map(|it| it.key.as_str()).collect()
    }

    fn page(state: &mut State, locks: &[(&str, u64)]) {
        let page = locks.iter().map(|(key, waiting)| lock(key, *waiting));
        state.apply(Update::Page(page.collect(), 0.5));
    }

    #[test]
    fn locks_with_the_most_waiters_come_first_during_the_scan() {
        let mut state = new();
        page(&mut state, &[("a", 1), ("b", 3)]);
        page(&mut state, &[("c", 2)]);
        assert_eq!(keys(&state), ["b", "c", "a"]);
        assert_eq!(state.said(), "3 locks so far, sweep 50 %");
        state.apply(Update::End);
        assert_eq!(keys(&state), ["b", "c", "a"]);
        // The next sweep removes, at its end, the locks that are gone.
        page(&mut state, &[("d", 9)]);
        assert_eq!(keys(&state), ["d", "b", "c", "a"]);
        state.apply(Update::End);
        assert_eq!(
            (keys(&state), &*state.said()),
            (vec!["d"], "1 lock, sweep 50 %")
        );
    }

    #[test]
    fn a_lock_that_is_inspected_again_is_updated_or_removed() {
        let mut state = new();
        page(&mut state, &[("a", 1), ("b", 3)]);
        state.apply(Update::Again("a".to_owned(), Some(lock("a", 7))));
        assert_eq!(keys(&state), ["a", "b"]);
        state.apply(Update::Again("a".to_owned(), None));
        assert_eq!(keys(&state), ["b"]);
    }

    #[test]
    fn keys_move_sort_filter_and_quit() {
        let mut state = new();
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
        let patterns = ["*q*".to_owned()];
        assert_eq!((state.patterns(), state.typed()), (&patterns[..], None));
        assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Quit);
    }

    #[test]
    fn esc_goes_back_and_quits_nothing() {
        let mut state = new();
        page(&mut state, &[("a", 1), ("b", 3)]);
        press(&mut state, KeyCode::Char('/'));
        press(&mut state, KeyCode::Char('a'));
        assert_eq!(press(&mut state, KeyCode::Esc), Action::Nothing);
        assert!(!state.is_filtered() && state.typed().is_none());
        for code in [KeyCode::Char('/'), KeyCode::Char('a'), KeyCode::Enter] {
            press(&mut state, code);
        }
        assert!(state.is_filtered());
        page(&mut state, &[("a", 1)]);
        let shows = Action::Show("a".to_owned());
        assert_eq!(press(&mut state, KeyCode::Enter), shows);
        state.apply(Update::Shown("one\ntwo\n".to_owned()));
        for (code, above) in [(KeyCode::End, 1), (KeyCode::Down, 1), (KeyCode::Up, 0)] {
            press(&mut state, code);
            assert_eq!(state.detail().unwrap().above, above, "{code:?}");
        }
        assert_eq!(press(&mut state, KeyCode::Esc), Action::Back);
        assert_eq!(press(&mut state, KeyCode::Esc), Action::Sweep);
        assert!(!state.is_filtered());
        assert_eq!(press(&mut state, KeyCode::Esc), Action::Nothing);
    }
}
