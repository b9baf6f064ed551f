-- KEYS: 1 process (string)
-- ARGV: none
-- returns the text with which the process has described itself; nothing if there is none
return redis.call('GET', KEYS[1])
