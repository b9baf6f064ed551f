INSERT INTO reentry_fence (lock_key, token) VALUES (?1, ?2)
ON CONFLICT (lock_key) DO UPDATE SET token = CASE WHEN excluded.token >= token THEN excluded.token ELSE -1 END
