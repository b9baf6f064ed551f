-- KEYS: 1 waits (hash): the waits of an owner
-- ARGV: 1 wait
-- returns 1 the record is gone, 0 it was not there
-- wait: the wait id.
return redis.call('HDEL', KEYS[1], ARGV[1])
