-- The fence of the crate `reentry`, for MariaDB 10.2 or MySQL 8.0.16 or later: a stale holder of a lock cannot write.
-- Older servers do not enforce CHECK.
--
-- Begin each transaction that writes under a lock with the statement at the end. Its arguments are the key of the lock, and
-- the fencing token of the holder. It fails if a greater token was seen: the constraint `stale_fencing_token` is violated
-- then (error 4025 of MariaDB, 3819 of MySQL). Roll back: after an error, the transaction is still open. To repeat it is
-- useless: the section must be run again, under a new acquisition of the lock.
--
-- Isolation: any, REPEATABLE READ included, which is the default. The statement keeps the row of the key locked until the
-- transaction ends. So the transactions of a key come one after the other, in the order of their tokens. InnoDB makes the
-- snapshot of REPEATABLE READ at the first plain SELECT. For that, the fence must come first, and START TRANSACTION must be
-- without WITH CONSISTENT SNAPSHOT: then each SELECT behind the fence sees what the transactions before it have committed.
-- A statement that commits implicitly, such as CREATE TABLE, ends the protection.

-- The key is compared byte for byte.
CREATE TABLE IF NOT EXISTS reentry_fence (
    lock_key VARBINARY(1024) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL,
    CONSTRAINT stale_fencing_token CHECK (token >= 0)
) ENGINE = InnoDB;
