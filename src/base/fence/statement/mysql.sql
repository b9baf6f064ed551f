INSERT INTO reentry_fence (lock_key, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = IF(VALUES(token) >= token, VALUES(token), -1)
