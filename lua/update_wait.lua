-- KEYS: 1 waits (hash): the waits of an owner
-- ARGV: 1 wait, 2 record; unless the record is '': 3 life, 4 lateness, 5 before
-- returns the time in µs: it is done; minus the time in µs: the record has arrived too late, and is not stored
-- wait: the wait id. record: the record without its two times; '' removes the existing record. life: how long the
--   record is kept, in ms. lateness: how late the record may arrive, in ms after `before`. before: an earlier time of
--   the server in µs, or 0.
local waits = 1
local wait, record, life, lateness, before = unpack(ARGV)
-- include expire
-- include repair
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if record == '' then
  redis.pcall('HDEL', KEYS[waits], wait)
  return now
end
-- If `before` is ahead of the clock, another server has provided it, or the clock was set back.
local passed = now - before
if passed < 0 or passed > lateness * 1000 then
  return -now
end
repair(waits, redis.pcall('HGET', KEYS[waits], wait))
local left = redis.call('PTTL', KEYS[waits])
redis.call('HSET', KEYS[waits], wait, string.format('%.0f %.0f ', now, now + life * 1000) .. record)
-- The hash outlives its last record.
keep_at_least(waits, life, left)
return now
