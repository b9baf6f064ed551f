INSERT INTO reentry_fence (lock_key, token) VALUES (CONVERT(? USING utf8mb4), ?)
ON DUPLICATE KEY UPDATE token = IF(VALUES(token) >= token, VALUES(token),
    token + LENGTH('stale_fencing_token') + 9223372036854775807)
