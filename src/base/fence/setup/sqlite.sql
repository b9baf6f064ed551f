-- The fence of the crate `reentry`, for SQLite 3.24 or later: a stale holder of a lock cannot write.
--
-- Begin each transaction that writes under a lock with BEGIN IMMEDIATE, and with the statement at the end. Its arguments are
-- the key of the lock, and the fencing token of the holder. If a greater token was seen, it violates the constraint
-- `stale_fencing_token` (SQLITE_CONSTRAINT_CHECK). Then roll back, because the transaction is still open. A repetition of
-- the transaction would fail, too. Run the section again, under a new acquisition of the lock.
--
-- Isolation: SQLite has one level, SERIALIZABLE. BEGIN IMMEDIATE acquires the write lock before anything is read. So a later
-- read is never older than the fence, and the transaction does not fail later with SQLITE_BUSY. Set a `busy_timeout`.

CREATE TABLE IF NOT EXISTS reentry_fence (
    lock_key TEXT NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL,
    CONSTRAINT stale_fencing_token CHECK (token >= 0)
) WITHOUT ROWID;
