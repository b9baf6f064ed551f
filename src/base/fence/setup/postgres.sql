-- The fence of the crate `reentry`, for Postgres 9.5 or later: a stale holder of a lock cannot write.
--
-- Begin each transaction that writes under a lock with this statement. Its arguments are the key of the lock, and the
-- fencing token of the holder:
--
--     SELECT reentry_fence('order:42', 1795401363314611);
--
-- If a greater token was seen, it fails with SQLSTATE 40001, and a message that contains `stale_fencing_token`. A repetition
-- of the transaction would fail, too. Run the section again, under a new acquisition of the lock.
--
-- Isolation: any level, including READ COMMITTED. The statement keeps the row of the key locked until the transaction ends.
-- So the transactions of a key come one after the other, in the order of their tokens.
-- * READ COMMITTED: each later statement sees what earlier transactions have committed. This requires that the fence is a
--   statement of its own, which reads nothing else.
-- * REPEATABLE READ, SERIALIZABLE: the snapshot is older than the row lock. If another transaction of the key has committed
--   since the snapshot was taken, Postgres reports SQLSTATE 40001 with another message. Then repeat the transaction.
--
-- If you may not create a function, the table is enough. This statement does the same. It fails with SQLSTATE 23514, and its
-- message contains `stale_fencing_token`, too. Name the schema of the table in it, if sessions differ in their `search_path`:
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
    -- The row is locked even if the condition is false.
    INSERT INTO reentry_fence AS seen (lock_key, token) VALUES (key, token)
    ON CONFLICT (lock_key) DO UPDATE SET token = EXCLUDED.token WHERE seen.token <= EXCLUDED.token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stale_fencing_token: a later holder of "%" has written', key USING ERRCODE = '40001';
    END IF;
END
$$;

-- The table is the one beside the function, whatever the `search_path` of the caller is.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION reentry_fence(text, bigint) SET search_path = %I, pg_temp', current_schema());
END
$$;
