-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line, 4 vacated (hash): whether the lock was recently left free
-- ARGV: 1 hold, 2 ends, 3 channel, 4 pause, 5 rest
-- returns 1 the hold has left, and the lock is free; 0 nothing has changed, and the release must follow
-- hold: the hold id.
-- ends: how the hold ends: 'full'. After it, ' unanswered' follows if an acquire of the hold may still
--   arrive, which will find a tombstone. ' nested' follows if the depth of the hold may have changed. Then the number
--   of its last change is removed.
-- channel: the channel on which programs of another kind are notified that the lock is free.
-- pause: for how many ms the lock is left to them if a process waits. rest: how many ms after the pause the lock may be
--   left to them again.
local lock, line, entries, vacated = 1, 2, 3, 4
local hold, ends, channel, pause, rest = unpack(ARGV)
-- include token
-- include line

if redis.call('HEXISTS', KEYS[lock], hold) == 0 then
  return 0
end
local now = clock()
local is_read, ahead = pcall(head, now)
if not is_read or (ahead and redis.call('EXISTS', KEYS[vacated]) == 1) then
  return 0
end
-- DEL comes first: Redis allows it when memory is full, and then every write after it. A failure after DEL does not
-- mean that the release was rejected.
redis.call('DEL', KEYS[lock])

local function clear()
  if string.find(ends, ' unanswered', 1, true) then
    bury(hold, now)
  end
  if string.find(ends, ' nested', 1, true) then
    redis.call('HDEL', KEYS[entries], hold)
  end
  if ahead then
    local left = redis.call('PTTL', KEYS[entries])
    redis.call('HSET', KEYS[entries], 'pause', string.format('%.0f', now + pause * 1000))
    outlive(entries, pause, left)
    redis.call('HSET', KEYS[vacated], 'at', string.format('%.0f', now))
    expire(vacated, pause + rest)
  end
end
if not pcall(clear) then
  -- include repair
  pcall(clear)
end
redis.pcall('PUBLISH', channel, '0')
return 1
