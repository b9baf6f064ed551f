//! The SQL with which a database rejects the writes of a stale holder. No driver is needed for it.

/// The SQL with which a database rejects the writes of a stale holder, for the database named by the variant.
///
/// The program creates a table once, with [`setup`](Self::setup). Each transaction that writes under a lock begins with
/// [`statement`](Self::statement), which has two parameters: the key of the lock, and the token as an `i64`
/// ([`FencingToken::as_i64`](crate::FencingToken::as_i64)). It fails if a greater token of that key was seen. Otherwise it
/// keeps the row of the key locked until the transaction ends. So the transactions of a key come one after the other, in the
/// order of their tokens, and each sees what those before it have committed. The message of the error has
/// `stale_fencing_token`.
///
/// - Outside a transaction the statement protects nothing.
/// - After its error, roll back. MySQL and SQLite leave the transaction open. To repeat the transaction is useless: run the
///   section again, under a new acquisition.
/// - It does not notice that a transaction is executed twice with one token.
///
/// The page [`fencing`](crate::guide::fencing) of the guide shows it with sqlx, diesel and plain SQL. The command `reentry
/// fence` prints the same SQL.
///
/// # Examples
///
/// ```
/// use reentry::{FenceSql, Held};
///
/// /// The statement that comes first in the transaction, and what is bound to its parameters.
/// fn fence(held: &Held) -> (&'static str, &str, i64) {
///     (FenceSql::Sqlite.statement(), held.key(), held.fencing_token().as_i64())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let guard = locks.lock("account:7").await?;
/// let (statement, key, token) = fence(guard.held());
/// assert!(statement.contains("?1") && statement.contains("?2"));
/// assert!(key == "account:7" && token > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FenceSql {
    /// Postgres 9.5 or later. The parameters are `$1` and `$2`, and the error is SQLSTATE 40001.
    Postgres,
    /// MariaDB 10.2 or later, or MySQL 8.0.16 or later, with InnoDB. The parameters are `?` and `?`, and the error is a
    /// violated CHECK.
    MySql,
    /// SQLite 3.24 or later. The parameters are `?1` and `?2`, and the error is a violated CHECK.
    Sqlite,
}

impl FenceSql {
    /// The statements that create the table `reentry_fence`, and in Postgres the function of this name.
    ///
    /// They may be executed again. Their comments say which isolation is needed, and why.
    ///
    /// # Examples
    ///
    /// ```
    /// use reentry::FenceSql;
    ///
    /// assert!(FenceSql::MySql.setup().contains("CREATE TABLE IF NOT EXISTS reentry_fence"));
    /// ```
    #[must_use]
    pub const fn setup(self) -> &'static str {
        match self {
            Self::Postgres => include_str!("fence/setup/postgres.sql"),
            Self::MySql => include_str!("fence/setup/mysql.sql"),
            Self::Sqlite => include_str!("fence/setup/sqlite.sql"),
        }
    }

    /// The first statement of a transaction that writes under a lock. The first parameter is the key of the lock, the second
    /// one is the token.
    ///
    /// # Examples
    ///
    /// ```
    /// use reentry::FenceSql;
    ///
    /// assert_eq!(FenceSql::Postgres.statement(), "SELECT reentry_fence($1, $2)");
    /// ```
    #[must_use]
    pub const fn statement(self) -> &'static str {
        let text = match self {
            Self::Postgres => include_str!("fence/statement/postgres.sql"),
            Self::MySql => include_str!("fence/statement/mysql.sql"),
            Self::Sqlite => include_str!("fence/statement/sqlite.sql"),
        };
        text.trim_ascii_end()
    }
}
