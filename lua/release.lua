-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 hold; unless the end is short: 2 ends, 3 inbox
-- returns 1 released, 0 not released
-- hold: the hold id. inbox: the channel of its process.
-- ends: how the hold ends. 'short': only its field can be in the store. The word is not sent, because the argument
--   would cost about 1 % of a pair. 'full': a place in the line may remain as well. After
--   'full', ' unanswered' follows if an acquire of the hold may still arrive, which will find a tombstone. ' nested'
--   follows if the depth of the hold may have changed. Then the number of its last change is removed.

-- The usual cases, kept short: the hold has the lock, and the line is empty. DEL comes first: Redis allows it when memory
-- is full, and then every write after it. A failure after DEL does not mean that the release was rejected.
local ends = ARGV[2] or 'short'
if ends == 'short' then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.pcall('EXISTS', KEYS[2]) == 0 then
    return redis.call('DEL', KEYS[1])
  end
end

-- include token
-- This case is kept short as well: the lock goes to the process that is first in the line, and that wants it
-- exclusively. The script writes only if everything that it has read is valid. `general` handles all other cases.
if ends == 'short' or ends == 'full' then
  -- include entry
  local lock, line, entries = 1, 2, 3
  local depth, stored = unpack(redis.call('HMGET', KEYS[lock], ARGV[1], 'mode'))
  local inbox, order, follower = unpack(depth and redis.pcall('ZRANGE', KEYS[line], 0, 1, 'WITHSCORES') or {})
  order = tonumber(order)
  local entry = order and order > 0 and order < TOMBSTONES_FROM and redis.pcall('HGET', KEYS[entries], inbox)
  local time = type(entry) == 'string' and redis.pcall('TIME')
  local now = time and time[1] and time[1] * 1000000 + time[2]
  local successor, lease, id, limit = alive(now and entry, now)
  if successor and not limit and (known(stored) or now) < now then
    if follower then
      redis.call('DEL', KEYS[lock])
    else
      redis.call('DEL', KEYS[lock], KEYS[line], KEYS[entries])
    end
    if not follower or redis.pcall('ZREM', KEYS[line], inbox) == 1 and redis.pcall('HDEL', KEYS[entries], inbox) == 1 then
      local token = time[1] .. ' ' .. time[2]
      redis.pcall('HSET', KEYS[lock], successor, '1', 'mode', id and token .. ' ' .. id or token)
      if redis.pcall('PEXPIRE', KEYS[lock], lease) == 1 then
        local name, given = KEYS[lock], string.format(' %.0f %.0f ', now, now)
        redis.pcall('PUBLISH', inbox, successor .. given .. lease .. ' ' .. name)
      else
        -- Without an expiry the lock would be held for ever.
        redis.pcall('DEL', KEYS[lock])
      end
    end
    return 1
  end
end

local function general()
  local lock, line, entries = 1, 2, 3
  local hold, inbox = ARGV[1], ARGV[3]
  -- include line
  -- include members

  local depth, stored = unpack(redis.call('HMGET', KEYS[lock], hold, 'mode'))
  local released = 0
  if depth then
    released = redis.call('DEL', KEYS[lock])
  end
  local unanswered = string.find(ends, ' unanswered', 1, true)

  local function move()
    local now = clock()
    if unanswered then
      bury(hold, now)
    end
    if string.find(ends, ' nested', 1, true) then
      redis.call('HDEL', KEYS[entries], hold)
    end
    if released == 1 then
      -- The lock moves to the process that has waited longest.
      return admit(now, true, math.max(now, (known(stored) or 0) + 1))
    end

    -- A place whose entry has expired is removed as well. Otherwise it would remain as long as a tombstone. Readers
    -- behind it may enter now.
    local entry = ends ~= 'short' and redis.call('HGET', KEYS[entries], inbox)
    local is_its = entry and string.match(entry, '^%d+ (%S+)') == hold
    if is_its or ends ~= 'short' and not entry and redis.call('ZSCORE', KEYS[line], inbox) then
      leave(inbox)
      if tidy(now) then
        admit(now)
      end
    end
  end

  if not pcall(move) then
    -- include repair
    messages = {}
    if unanswered and released == 0 then
      -- It is an error if the tombstone cannot be written.
      move()
    else
      pcall(move)
    end
  end
  tell()
  return released
end
return general()
