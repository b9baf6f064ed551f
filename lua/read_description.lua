-- KEYS: 1 description (string)
-- ARGV: none
-- returns the text in which a process has described itself; nothing if there is none
return redis.call('GET', KEYS[1])
