//! The columns of a table of locks. A screen that is too narrow shows fewer of them, and a wide one has more room for the
//! keys and the holders.

use crate::text::{cells, padded, printable};
use crate::view::LockView;

/// The width from which on a holder is worth more than a further column.
const MIN_HOLDER_WIDTH: usize = 20;

/// The maximum width of the keys, and of the holders, where there is no screen.
const MAX_WIDTH_WITHOUT_SCREEN: usize = 60;

/// The gap between two columns.
const COLUMN_GAP: usize = 2;

/// A column whose width is not that of its content.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    width: usize,
    /// The order of importance. The least important column is left out first.
    worth: u8,
    cell: fn(&LockView, usize) -> String,
}

const HOLDER: &str = "HOLDER";

const COLUMNS: [Column; 7] = [
    column("MODE", 9, 3, |lock, _| lock.state().to_owned()),
    column("HOLDERS", 7, 1, |lock, _| lock.holders_of_most()),
    column(HOLDER, 0, 4, LockView::holder),
    column("DEPTH", 5, 0, |lock, _| lock.depth().to_string()),
    column("LEASE", 7, 5, |lock, _| lock.lease_left()),
    column("HELD", 7, 2, |lock, _| lock.held_for()),
    column("WAITING", 7, 6, |lock, _| {
        lock.waiting_processes.to_string()
    }),
];

const fn column(
    name: &'static str,
    width: usize,
    worth: u8,
    cell: fn(&LockView, usize) -> String,
) -> Column {
    Column {
        name,
        width,
        worth,
        cell,
    }
}

/// The columns of a table.
pub(crate) struct Columns {
    key: usize,
    others: Vec<Column>,
    /// The cells that are left in a line, for a holder that is longer than those before it.
    spare: usize,
}

impl Columns {
    /// The columns for these locks that fit into a number of cells. Without a screen, these are all columns. A key of up
    /// to `least` cells is worth more than a further column.
    pub(crate) fn fitting<'a>(
        screen: Option<usize>,
        least: usize,
        locks: impl Iterator<Item = &'a LockView>,
    ) -> Self {
        let widths = locks.map(|lock| {
            let key = cells(&printable(&lock.key));
            (key, cells(&lock.holder(usize::MAX)))
        });
        let heads = ("KEY".len(), HOLDER.len());
        let (key, holder) = widths.fold(heads, |most, it| (most.0.max(it.0), most.1.max(it.1)));
        match screen {
            Some(screen) => {
                let columns = Self::on_screen(screen, (key, least), holder);
                let widths = columns
                    .others
                    .iter()
                    .map(|column| column.width + COLUMN_GAP);
                let spare = screen.saturating_sub(columns.key + widths.sum::<usize>());
                Self { spare, ..columns }
            }
            None => Self {
                spare: usize::MAX,
                ..Self::of_widths(
                    COLUMNS.to_vec(),
                    key.min(MAX_WIDTH_WITHOUT_SCREEN),
                    holder.min(MAX_WIDTH_WITHOUT_SCREEN),
                )
            },
        }
    }

    /// The columns on a screen, beside keys and holders of these widths.
    fn on_screen(screen: usize, (key, least_key): (usize, usize), holder: usize) -> Self {
        let mut others = COLUMNS.to_vec();
        loop {
            let taken: usize = others.iter().map(|column| column.width + COLUMN_GAP).sum();
            let left = screen.saturating_sub(taken);
            let has_holder = others.iter().any(|column| column.name == HOLDER);
            let of_holder = if has_holder {
                holder.min(MIN_HOLDER_WIDTH)
            } else {
                0
            };
            let least = others.iter().map(|column| column.worth).min();
            match least {
                Some(least) if left < key.min(least_key) + of_holder => {
                    others.retain(|column| column.worth != least);
                }
                _ if !has_holder => return Self::of_widths(others, key.min(left), 0),
                _ => {
                    // What one of them does not need is for the other.
                    let holder = holder.min(of_holder.max(left / 2).max(left.saturating_sub(key)));
                    return Self::of_widths(others, key.min(left - holder), holder);
                }
            }
        }
    }

    fn of_widths(mut others: Vec<Column>, key: usize, holder: usize) -> Self {
        for column in others.iter_mut().filter(|it| it.name == HOLDER) {
            column.width = holder;
        }
        let spare = 0;
        Self { key, others, spare }
    }

    /// The names of the columns, each above its cells.
    pub(crate) fn head(&self) -> String {
        self.line("KEY", |column| column.name.to_owned())
    }

    /// The row of a lock, with its whole key.
    pub(crate) fn row(&self, lock: &LockView) -> String {
        let key = printable(&lock.key);
        let spare = self
            .spare
            .saturating_sub(cells(&key).saturating_sub(self.key));
        self.line(&key, |column| {
            (column.cell)(lock, column.width.saturating_add(spare))
        })
    }

    /// The row of a lock, which is never wider than the screen.
    #[cfg(feature = "watch")]
    pub(crate) fn row_on_screen(&self, lock: &LockView) -> String {
        let key = printable(&lock.key);
        self.line(&crate::text::shortened(&key, self.key), |column| {
            (column.cell)(lock, column.width)
        })
    }

    /// A line of cells. Texts are at the left edge of their columns, numbers and times at the right edge.
    fn line(&self, key: &str, cell: impl Fn(&Column) -> String) -> String {
        let mut line = padded(key, self.key);
        for column in &self.others {
            let (cell, width) = (cell(column), column.width);
            line.push_str(&" ".repeat(COLUMN_GAP));
            line.push_str(&match column.name {
                "MODE" | HOLDER => padded(&cell, width),
                _ => format!("{cell:>width$}"),
            });
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::tests::lock;
    use crate::view::tests::held_by;

    #[test]
    fn a_later_row_gets_the_width_that_earlier_rows_left() {
        let first = lock("order:42", 0);
        let later = held_by("billing", "worker-3");
        for (screen, expected) in [
            (Some(80), "…:10540@worker-3"),
            (Some(60), "billing:105…"),
            (None, "billing:10540@worker-3"),
        ] {
            let columns = Columns::fitting(screen, 40, [&first].into_iter());
            let row = columns.row(&later);
            assert!(row.contains(&format!(" {expected} ")), "{row}");
            assert!(screen.is_none_or(|screen| cells(&row) <= screen), "{row}");
        }
    }

    #[test]
    fn a_table_fits_into_every_width_of_a_terminal() {
        let widths = [3, 8, 30, 500];
        for (screen, key) in (1..200).flat_map(|screen| widths.map(|it| (screen, it))) {
            for holder in widths {
                let columns = Columns::on_screen(screen, (key, 20), holder);
                let others: usize = columns.others.iter().map(|it| it.width + COLUMN_GAP).sum();
                assert!(columns.key + others <= screen, "{screen} {key} {holder}");
                assert!(columns.key > 0, "{screen} {key} {holder}");
            }
        }
    }

    #[test]
    fn the_least_important_columns_are_dropped_first() {
        for (screen, key, holder, expected) in [
            (
                80,
                8,
                16,
                "KEY:8 MODE HOLDERS HOLDER:16 DEPTH LEASE HELD WAITING",
            ),
            (80, 8, 22, "KEY:8 MODE HOLDERS HOLDER:22 LEASE HELD WAITING"),
            (80, 34, 22, "KEY:20 MODE HOLDER:20 LEASE HELD WAITING"),
            (
                200,
                34,
                70,
                "KEY:34 MODE HOLDERS HOLDER:70 DEPTH LEASE HELD WAITING",
            ),
            (40, 34, 22, "KEY:22 LEASE WAITING"),
            (12, 34, 22, "KEY:12"),
        ] {
            let columns = Columns::on_screen(screen, (key, 20), holder);
            let others = columns.others.iter().map(|column| match column.name {
                HOLDER => format!(" {HOLDER}:{}", column.width),
                name => format!(" {name}"),
            });
            let shown = format!("KEY:{}{}", columns.key, others.collect::<String>());
            assert_eq!(shown, expected, "{screen}");
        }
    }
}
