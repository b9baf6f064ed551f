-- KEYS: 1 description (string): of a process, or the label of a hold
-- ARGV: none
-- returns the text; nothing if there is none
return redis.call('GET', KEYS[1])
