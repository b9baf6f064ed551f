-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 hold, 2 ends, 3 kept, 4 least
-- returns 1 the lock is kept until the time `least` is over, 0 the hold is not in the lock, or that time is over
-- hold: the hold id.
-- ends: how the hold ends: 'full'. After it, ' unanswered' follows if an acquire of the hold may still arrive, which
--   will find a tombstone. ' nested' follows if the depth of the hold may have changed. Then the number of its last
--   change is removed.
-- kept: the field that replaces the field of the hold.
-- least: the minimum time for which the lock is held, in ms since it was taken.
local lock, line, entries = 1, 2, 3
local hold, ends, kept, least = unpack(ARGV)
-- include token
-- include line

local found = redis.call('HMGET', KEYS[lock], hold, kept, 'mode')
local token = known(found[3])
if not (found[1] or found[2]) or not token then
  return 0
end
local now = clock()
-- The time counts from the token, which is the time at which the lock was taken. So a repetition changes nothing. If
-- the clock was set back, the token is ahead of it.
local expires = math.ceil(math.min(token, now) / 1000) + least
if expires <= math.floor(now / 1000) then
  return 0
end
local function clear()
  if string.find(ends, ' unanswered', 1, true) then
    bury(hold, now)
  end
  if string.find(ends, ' nested', 1, true) then
    redis.call('HDEL', KEYS[entries], hold)
  end
end
if not pcall(clear) then
  -- include repair
  clear()
end
-- PEXPIREAT comes first, because it needs no memory. It has deleted the lock if that time has passed since the clock was
-- read. In that case HSET would create a lock that never expires.
redis.call('PEXPIREAT', KEYS[lock], string.format('%.0f', expires))
if redis.call('EXISTS', KEYS[lock]) == 1 then
  -- A late request of the hold must not find its field. Without either field, the lock would never be released.
  redis.call('HSET', KEYS[lock], kept, '1')
  redis.call('HDEL', KEYS[lock], hold)
end
return 1
