//! The SQL with which a database rejects the writes of a stale holder. It needs no driver.

/// The SQL with which a database rejects the writes of a stale holder.
///
/// Create a table once, with [`setup`](Self::setup), which `reentry fence` prints as well. Begin each transaction that
/// writes under a lock with [`statement`](Self::statement), whose parameters are the key of the lock and the token
/// ([`FencingToken::as_i64`](crate::FencingToken::as_i64)). It fails with `stale_fencing_token` in its message if a
/// greater token of that key was seen. Otherwise it keeps the row of the key locked until the transaction ends, so the
/// transactions of a key run one after the other.
///
/// - After its error, roll back, which MySQL and SQLite do not do by themselves, and take the lock again.
/// - Outside a transaction, the statement protects nothing.
/// - It does not notice a transaction that is executed twice with one token.
///
/// The page [loss and tokens](crate::guide::loss#the-fence) has examples with sqlx, diesel and plain SQL.
///
/// # Examples
///
/// ```
/// use reentry::{FenceSql, Held};
///
/// /// Returns the first statement of the transaction, and the values of its parameters.
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
    /// Postgres 9.5 or later. The parameters are `$1` and `$2`. The error is SQLSTATE 40001.
    Postgres,
    /// MariaDB 10.2 or later, or MySQL 5.7 or later, with InnoDB. The parameters are `?` and `?`. The error is 1690, a
    /// number out of range.
    MySql,
    /// SQLite 3.24 or later. The parameters are `?1` and `?2`. The error is a violated NOT NULL constraint.
    Sqlite,
}

impl FenceSql {
    /// Returns the statements that create the table `reentry_fence`, and in Postgres the function of the same name.
    ///
    /// They may be executed again. Their comments describe which isolation is needed, and why.
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

    /// Returns the first statement of a transaction that writes under a lock. Its parameters are the key and the token.
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
