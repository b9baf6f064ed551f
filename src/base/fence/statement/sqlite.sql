INSERT INTO reentry_fence (lock_key, token) VALUES (?1, ?2)
ON CONFLICT (lock_key) DO UPDATE SET token = excluded.token,
    stale_fencing_token = CASE WHEN excluded.token >= token THEN 0 END
