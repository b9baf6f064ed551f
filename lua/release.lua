-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 hold; unless the end of an exclusive hold is short: 2 ends, 3 inbox
-- returns 1 released, 0 not released
-- hold: the hold id. inbox: the channel of its process.
-- ends: how the hold ends. 'short': only its field can be in the store. The word is not sent, because the argument
--   would cost about 1 % of a pair. 'reader': only its field and its lease can be in the store, because it shares the
--   lock. 'full', or 'reader full': a place in the line may remain as well. After 'full', ' unanswered' follows if a
--   request of the hold may still arrive, which will find a tombstone. ' nested' follows if the depth of the hold may
--   have changed. Then the number of its last change is removed.

-- The usual cases, kept short: the hold has the lock, and no process waits. DEL comes first: Redis allows it when memory
-- is full, and then every write after it. A failure after DEL does not mean that the release was rejected.
local ends = ARGV[2] or 'short'
if ends == 'short' then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.pcall('ZCOUNT', KEYS[2], '-inf', '(TOMBSTONES_FROM') == 0 then
    return redis.call('DEL', KEYS[1])
  end
elseif ends == 'reader' then
  -- include exit
  if exit(1, 2, ARGV[1]) then
    return 1
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
  local is_reader = string.find(ends, 'reader', 1, true)
  local unanswered = string.find(ends, ' unanswered', 1, true)
  local nested = string.find(ends, ' nested', 1, true)
  -- include line
  -- include members

  local depth, stored = unpack(redis.call('HMGET', KEYS[lock], hold, 'mode'))
  if depth and is_reader then
    remove({hold})
  elseif depth then
    redis.call('DEL', KEYS[lock])
  end

  -- Removes a hold that has only waited from the place of its process.
  local function depart()
    local entry = redis.call('HGET', KEYS[entries], inbox)
    local deadline, holds, rest = string.match(entry or '', '^(%d+) (%S+)( .*)$')
    local left = {}
    for _, other in ipairs(split(holds or '')) do
      if other ~= hold then
        table.insert(left, other)
      end
    end
    if left[1] then
      redis.call('HSET', KEYS[entries], inbox, deadline .. ' ' .. table.concat(left, ',') .. rest)
    elseif holds == hold or not entry then
      -- A place whose entry has expired is removed as well. Otherwise it would remain as long as a tombstone.
      leave(inbox)
    end
  end

  local function move()
    if is_reader then
      redis.call('ZREM', KEYS[line], 'r' .. hold)
    end
    if depth and not unanswered and not nested and redis.call('EXISTS', KEYS[line]) == 0 then
      return
    end
    local now = clock()
    if unanswered then
      bury(hold, now)
    end
    if nested then
      redis.call('HDEL', KEYS[entries], hold)
    end
    if inbox and not depth then
      depart()
    end
    -- The lock moves to the process that has waited longest.
    if tidy(now) then
      settle()
      admit(now)
    elseif depth and not is_reader or redis.call('EXISTS', KEYS[lock]) == 0 then
      admit(now, true, math.max(now, (known(stored) or 0) + 1))
    end
  end

  -- It is an error if the tombstone of a hold that was not in the lock cannot be written.
  local done, failure = pcall(attempt, move)
  if not done and unanswered and not depth then
    error(failure, 0)
  end
  tell()
  return depth and 1 or 0
end
return general()
