-- The fence of the crate `reentry`, for SQLite 3.24 or later: a stale holder of a lock cannot write.
--
-- Begin each transaction that writes under a lock with BEGIN IMMEDIATE, and with the statement at the end. Its arguments are
-- the key of the lock, as text, and the fencing token of the holder, as an integer. If a greater token was seen, it violates
-- NOT NULL in the column `stale_fencing_token` (SQLITE_CONSTRAINT_NOTNULL). Then roll back, because the transaction is still
-- open. A repetition of the transaction would fail, too. Run the section again, under a new acquisition of the lock.
--
-- Isolation: SQLite has one level, SERIALIZABLE. BEGIN IMMEDIATE acquires the write lock before anything is read. So a later
-- read is never older than the fence, and the transaction does not fail later with SQLITE_BUSY. Set a `busy_timeout`.

-- The last column is for the error alone, and always 0: a setting can turn off CHECK, but not NOT NULL. Without the checks, a
-- key in bytes would have a row of its own, and text would be greater than each number.
CREATE TABLE IF NOT EXISTS reentry_fence (
    lock_key TEXT NOT NULL PRIMARY KEY CHECK (typeof(lock_key) = 'text'),
    token INTEGER NOT NULL CHECK (typeof(token) = 'integer'),
    stale_fencing_token INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
