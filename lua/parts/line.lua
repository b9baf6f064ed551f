-- Part: the line of a lock, and how the lock moves. Needs the part token, and the locals lock, line and entries: the indexes of
-- the keys. Each command names its key as KEYS[…], as some services require.
-- The line is a zset. Its members are, by score:
--   below 0: the readers inside, r<hold> -> minus the end of the lease in ms
--   from 1: the processes that wait, inbox -> order
--   from TOMBSTONES_FROM (2^52): tombstones, x<hold> -> TOMBSTONES_FROM + the end of the tombstone in ms
-- The entries are a hash: inbox -> what the process waits for; hold -> the sequence number of its last depth change.
-- Each key of the line expires together with the last thing in it, and not before.
-- include entry
-- include expire
-- include repair
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function leave(inbox)
  redis.call('ZREM', KEYS[line], inbox)
  redis.call('HDEL', KEYS[entries], inbox)
end

-- Returns the first live process in the line and what it waits for. Removes the dead processes before it. Also removes
-- the readers of a lock that is gone.
local function head(now)
  while true do
    local inbox, order = unpack(redis.call('ZRANGE', KEYS[line], 0, 0, 'WITHSCORES'))
    if inbox and tonumber(order) < 0 then
      if redis.call('EXISTS', KEYS[lock]) == 0 then
        redis.call('ZREMRANGEBYSCORE', KEYS[line], '-inf', '(0')
      end
      inbox, order = unpack(redis.call('ZRANGE', KEYS[line], 0, '(TOMBSTONES_FROM', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES'))
    end
    if not inbox or tonumber(order) >= TOMBSTONES_FROM then
      return
    end
    local wish = {alive(redis.call('HGET', KEYS[entries], inbox), now)}
    if wish[1] then
      return inbox, wish
    end
    leave(inbox)
  end
end

-- Enters the line at its end, or keeps the place of the inbox. Returns true if the
-- place is new and no process except the holder's was in the line. The suffix is the word after the lease in the entry.
local function stand(inbox, now, life, holds, lease, suffix, holder)
  local is_first, order = false, redis.call('ZSCORE', KEYS[line], inbox)
  local left = redis.call('PTTL', KEYS[line])
  if not order then
    local last = redis.call('ZRANGE', KEYS[line], '(TOMBSTONES_FROM', 0, 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
    redis.call('ZADD', KEYS[line], (last[2] or 0) + 1, inbox)
    is_first = not last[1] or last[1] == holder
  end
  outlive(line, life, left)
  local deadline = string.format('%.0f', now + life * 1000)
  local entry = deadline .. ' ' .. holds .. ' ' .. lease
  left = redis.call('PTTL', KEYS[entries])
  redis.call('HSET', KEYS[entries], inbox, suffix and entry .. ' ' .. suffix or entry)
  outlive(entries, life, left)
  return is_first
end

-- Leaves a tombstone of a hold. The first command removes old tombstones. It is a write that needs no memory, so Redis
-- allows the other writes when memory is full.
local function bury(hold, now)
  local at = TOMBSTONES_FROM + math.floor(now / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[line], TOMBSTONES_FROM, '(' .. string.format('%.0f', at))
  local left = redis.call('PTTL', KEYS[line])
  redis.call('ZADD', KEYS[line], at + TOMBSTONE_LIFE, 'x' .. hold)
  outlive(line, TOMBSTONE_LIFE, left)
end

-- Enters a hold in a free lock.
local function take(hold, lease, token, id)
  redis.call('HSET', KEYS[lock], hold, '1', 'mode', written(token, id))
  expire(lock, lease)
end

-- Messages are sent after all writes, because a script must not fail once it has sent a message.
local messages = {}
local function notify(inbox, message)
  table.insert(messages, inbox)
  local name = KEYS[lock]
  table.insert(messages, message .. name)
end

local function tell()
  for at = 1, #messages, 2 do
    redis.pcall('PUBLISH', messages[at], messages[at + 1])
  end
end

-- Does the work. After a failure, it repairs the keys and begins again.
local function attempt(work)
  local done, reply = pcall(work)
  if not done then
    repair(line, redis.pcall('ZSCORE', KEYS[line], ''))
    repair(entries, redis.pcall('HGET', KEYS[entries], ''))
    messages = {}
    reply = work()
  end
  return reply
end
