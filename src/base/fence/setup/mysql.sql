-- The fence of the crate `reentry`, for MariaDB 10.2 or MySQL 5.7, or later: a stale holder of a lock cannot write.
--
-- Begin each transaction that writes under a lock with the statement at the end. Its arguments are the key of the lock, and
-- the fencing token of the holder. If a greater token was seen, it fails with error 1690, and a message that contains
-- `stale_fencing_token`: it computes a number out of range, which is an error in every SQL mode, and which no setting turns
-- off. Then roll back, because the transaction is still open. A repetition of the transaction would fail, too. Run the
-- section again, under a new acquisition of the lock.
--
-- Isolation: any level, including the default, REPEATABLE READ. The statement keeps the row of the key locked until the
-- transaction ends. So the transactions of a key come one after the other, in the order of their tokens. InnoDB takes the
-- snapshot of REPEATABLE READ at the first plain SELECT. So each SELECT after the fence sees what earlier transactions have
-- committed. This requires that the fence comes first, and that START TRANSACTION has no WITH CONSISTENT SNAPSHOT. A
-- statement that commits implicitly, such as CREATE TABLE, ends the protection.

-- The key is compared byte for byte, in UTF-8. Where the character set of the connection lacks a character, the server has
-- made a `?` of it before, and the key has another row. So use utf8mb4, or keys in ASCII.
CREATE TABLE IF NOT EXISTS reentry_fence (
    lock_key VARBINARY(1024) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL
) ENGINE = InnoDB;
