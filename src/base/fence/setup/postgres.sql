-- The fence of the crate `reentry`, for Postgres 9.5 or later: a stale holder of a lock cannot write.
--
-- Begin each transaction that writes under a lock with this statement. Its arguments are the key of the lock, and the
-- fencing token of the holder:
--
--     SELECT reentry_fence('order:42', 1795401363314611);
--
-- It fails with SQLSTATE 40001 if a greater token was seen; the message has `stale_fencing_token`. To repeat the transaction
-- is useless then: the section must be run again, under a new acquisition of the lock.
--
-- Isolation: any, READ COMMITTED included. The statement keeps the row of the key locked until the transaction ends. So the
-- transactions of a key come one after the other, in the order of their tokens.
-- * READ COMMITTED: each statement behind it sees what the transactions before it have committed. For that, the fence must
--   be a statement by itself, without a read beside it.
-- * REPEATABLE READ, SERIALIZABLE: the snapshot is older than the row lock. If another transaction of the key has committed
--   since the snapshot was taken, Postgres reports SQLSTATE 40001 with another message: repeat the transaction.
--
-- Where no function may be created, the table is enough. This statement does the same; it fails with SQLSTATE 23514, and
-- its message has `stale_fencing_token` too:
--
--     INSERT INTO reentry_fence (lock_key, token) VALUES ($1, $2)
--     ON CONFLICT (lock_key) DO UPDATE SET token =
--         CASE WHEN EXCLUDED.token >= reentry_fence.token THEN EXCLUDED.token ELSE -1 END;

CREATE TABLE IF NOT EXISTS reentry_fence (
    lock_key text PRIMARY KEY,
    token bigint NOT NULL CONSTRAINT stale_fencing_token CHECK (token >= 0)
);

CREATE OR REPLACE FUNCTION reentry_fence(key text, token bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- The row is locked also where the condition does not hold.
    INSERT INTO reentry_fence AS seen (lock_key, token) VALUES (key, token)
    ON CONFLICT (lock_key) DO UPDATE SET token = EXCLUDED.token WHERE seen.token <= EXCLUDED.token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stale_fencing_token: a later holder of "%" has written', key USING ERRCODE = '40001';
    END IF;
END
$$;
