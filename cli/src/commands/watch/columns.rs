//! The columns that a screen has room for. Columns with numbers keep their width. The keys become shorter, and the
//! least important columns are left out.

use crate::text::{cells, cut, printable};
use crate::view::LockView;

/// The maximum width of the keys, in cells.
const KEY_MOST: usize = 60;

/// The width of a key that is worth more than a further column.
const KEY_LEAST: usize = 20;

/// The width of the holders, in cells.
const HOLDER: usize = 20;

/// The gap between two columns.
const GAP: usize = 1;

/// A column other than the column of the keys.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) width: usize,
    /// The order of importance. The least important column is left out first.
    worth: u8,
    cell: fn(&LockView) -> String,
}

const COLUMNS: [Column; 7] = [
    column("MODE", 9, 3, |lock| lock.mode.to_owned()),
    column("HOLDERS", 7, 1, |lock| lock.holder_count.to_string()),
    column("HOLDER", HOLDER, 2, |lock| lock.holder(HOLDER)),
    column("DEPTH", 5, 0, |lock| lock.depth().to_string()),
    column("LEASE", 10, 5, LockView::lease_left),
    column("HELD", 7, 4, LockView::held_for),
    column("WAITING", 7, 6, |lock| lock.waiting_processes.to_string()),
];

const fn column(
    name: &'static str,
    width: usize,
    worth: u8,
    cell: fn(&LockView) -> String,
) -> Column {
    Column {
        name,
        width,
        worth,
        cell,
    }
}

/// The columns of a screen.
pub(super) struct Columns {
    pub(super) key: usize,
    pub(super) others: Vec<Column>,
}

impl Columns {
    /// The columns that fit into a number of cells, in addition to keys of this maximum width.
    pub(super) fn fitting(screen: usize, widest: usize) -> Self {
        let wanted = widest.clamp(3, KEY_MOST);
        let mut others = COLUMNS.to_vec();
        loop {
            let taken: usize = others.iter().map(|column| column.width + GAP).sum();
            let left = screen.saturating_sub(taken);
            let least = others.iter().map(|column| column.worth).min();
            match least {
                Some(least) if left < wanted.min(KEY_LEAST) => {
                    others.retain(|column| column.worth != least);
                }
                _ => {
                    let key = wanted.min(left);
                    return Self { key, others };
                }
            }
        }
    }

    /// The row of a lock, cell by cell.
    pub(super) fn row(&self, lock: &LockView) -> Vec<String> {
        let others = self.others.iter().map(|column| column.shown(lock));
        let key = shortened(&printable(&lock.key), self.key);
        std::iter::once(key).chain(others).collect()
    }
}

impl Column {
    fn shown(&self, lock: &LockView) -> String {
        self.aligned((self.cell)(lock))
    }

    /// Its name, above its cells.
    pub(super) fn head(&self) -> String {
        self.aligned(self.name.to_owned())
    }

    /// Numbers and times are at the right edge, and are ASCII.
    fn aligned(&self, text: String) -> String {
        let width = self.width;
        match self.name {
            "MODE" | "HOLDER" => text,
            _ => format!("{text:>width$}"),
        }
    }
}

/// A text that shows where a part of it is missing.
fn shortened(text: &str, width: usize) -> String {
    match cells(text) <= width {
        true => text.to_owned(),
        false => format!("{}…", cut(text, width.saturating_sub(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_fits_into_every_screen() {
        for (screen, widest) in (1..200).flat_map(|screen| [0, 8, 30, 500].map(|it| (screen, it))) {
            let columns = Columns::fitting(screen, widest);
            let others: usize = columns.others.iter().map(|it| it.width + GAP).sum();
            assert!(columns.key + others <= screen, "{screen} {widest}");
            assert!(columns.key > 0, "{screen} {widest}");
        }
    }

    #[test]
    fn the_least_important_columns_go_first() {
        let names = |screen, widest| {
            let columns = Columns::fitting(screen, widest);
            let others: Vec<_> = columns.others.iter().map(|it| it.name).collect();
            (columns.key, others.join(" "))
        };
        for (screen, widest, expected) in [
            (
                100,
                34,
                (28, "MODE HOLDERS HOLDER DEPTH LEASE HELD WAITING"),
            ),
            (80, 8, (8, "MODE HOLDERS HOLDER DEPTH LEASE HELD WAITING")),
            (80, 34, (22, "MODE HOLDER LEASE HELD WAITING")),
            (40, 34, (21, "LEASE WAITING")),
            (40, 8, (8, "LEASE HELD WAITING")),
            (12, 34, (12, "")),
        ] {
            let (key, others) = expected;
            assert_eq!(names(screen, widest), (key, others.to_owned()), "{screen}");
        }
    }

    #[test]
    fn a_key_without_room_says_so() {
        assert_eq!(shortened("order:42", 8), "order:42");
        assert_eq!(shortened("order:42", 7), "order:…");
        // A character of two cells that would be cut in half is left out.
        assert_eq!(shortened("注文書", 4), "注…");
    }
}
