-- KEYS: 1 the waits of an owner (hash)
-- ARGV: 1 wait id
-- returns 1 the record is gone, 0 it was not there
return redis.call('HDEL', KEYS[1], ARGV[1])
