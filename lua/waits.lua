-- KEYS: for each change waits (hash): the waits of an owner
-- ARGV: for each change: wait, record, life, lateness, before
-- returns for each change: the time in µs: it is made; minus the time in µs: the record has arrived too late, and is not stored
-- wait: the wait id. record: the record without its two times; '' removes the existing record. life: how long the
--   record is kept, in ms. lateness: how late the record may arrive, in ms after `before`. before: an earlier time of
--   the server in µs, or 0.
-- include expire
-- include repair
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local replies = {}

for waits = 1, #KEYS do
  local first = 5 * waits - 4
  local wait, record, life, lateness, before = unpack(ARGV, first, first + 4)
  local passed = now - before
  replies[waits] = now
  if record == '' then
    redis.pcall('HDEL', KEYS[waits], wait)
  elseif passed < 0 or passed > lateness * 1000 then
    -- If `before` is ahead of the clock, another server has provided it, or the clock was set back.
    replies[waits] = -now
  else
    record = string.format('%.0f %.0f ', now, now + life * 1000) .. record
    repair(waits, redis.pcall('HGET', KEYS[waits], wait))
    local left = redis.call('PTTL', KEYS[waits])
    redis.call('HSET', KEYS[waits], wait, record)
    -- The hash outlives its last record.
    outlive(waits, life, left)
  end
end
return replies
