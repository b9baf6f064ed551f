-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 hold; unless the end is short: 2 ends, 3 inbox; only if ends begins with 'hand': 4 successor, 5 ttl, 6 place, 7 id
-- returns 1 or {1} released, {0} not released; with a successor also its token: the successor has the lock with a lease of its TTL; {released, 1, token, lease in ms, time in µs}: it has the lock; {released, 0, remaining ms, time in µs}: it is in the line; {released}: it must send its own request
-- hold: the hold id. inbox: the channel of its process.
-- ends: how the hold ends. 'short': only its field can be in the store. The word is not sent, because the argument
--   would cost about 1 % of a pair. 'full': a place in the line may remain as well. 'hand': the lock, or the place,
--   goes to the successor. After 'full' and 'hand', ' unanswered' follows if an acquire of the hold may still arrive,
--   which will find a tombstone. ' nested' follows if the depth of the hold may have changed. Then the number of its
--   last change is removed.
-- successor: the hold id of the next holder in the process. ttl: its TTL in ms. The token is the time in µs.
-- place: 'pass lease life'. pass: 1 if another process goes first, else 0. lease: the lease in ms of a lock
--   that is handed to the inbox. life: how long its entry is kept, in ms.
-- id: the UUID of the inbox, if it gets a message when another process begins to wait; else absent.

-- The usual cases, kept short: the hold has the lock, and the line is empty. DEL comes first: Redis allows it when memory
-- is full, and then every write after it. A failure after DEL does not mean that the release was rejected.
local ends = ARGV[2] or 'short'
if ends == 'short' then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.pcall('EXISTS', KEYS[2]) == 0 then
    return redis.call('DEL', KEYS[1])
  end
elseif ends == 'hand' then
  local fields = redis.call('HMGET', KEYS[1], ARGV[1], 'mode')
  if fields[1] and fields[2] and redis.pcall('EXISTS', KEYS[2]) == 0 then
    local time = redis.pcall('TIME')
    local now = time[1] and time[1] * 1000000 + time[2] or 0
    local stored = ARGV[7] and '^(%d+) (%d+) %x+%-%x+%-%x+%-%x+%-%x+$' or '^(%d+) (%d+)$'
    local seconds, micros = string.match(fields[2], stored)
    if seconds and seconds * 1000000 + micros < now then
      redis.call('DEL', KEYS[1])
      local token = time[1] .. ' ' .. time[2]
      if ARGV[7] then
        token = token .. ' ' .. ARGV[7]
      end
      redis.pcall('HSET', KEYS[1], ARGV[4], '1', 'mode', token)
      if redis.pcall('PEXPIRE', KEYS[1], ARGV[5]) == 1 then
        return now
      end
      -- Without an expiry the lock would be held for ever.
      redis.pcall('DEL', KEYS[1])
      return {1}
    end
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
    return {1}
  end
end

local function general()
  local lock, line, entries = 1, 2, 3
  local hold, inbox, successor, ttl, place, id = ARGV[1], unpack(ARGV, 3)
  local pass, lease, life = string.match(place or '', '^(%S+) (%S+) (%S+)$')
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
      -- The lock moves: to the successor, or to the process that has waited longest.
      local token = math.max(now, (known(stored) or 0) + 1)
      if not successor then
        admit(now, true, token)
        return {1}
      end
      local ahead = pass == '1' and head(now)
      if ahead and ahead ~= inbox then
        stand(inbox, now, life, successor, lease, id)
        return {1, 0, admit(now, true, token), now}
      end
      leave(inbox)
      take(successor, ttl, token, id)
      return {1, 1, token, tonumber(ttl), now}
    end

    if ends == 'short' then
      return {0}
    end
    -- A hold that has only waited leaves its place in the line to the successor.
    local entry = redis.call('HGET', KEYS[entries], inbox)
    if entry and string.match(entry, '^%d+ (%S+)') == hold then
      -- Requests may overtake each other. A successor that has the lock by now does not enter the line. Otherwise it
      -- would get the lock once more after its own release.
      if successor and redis.call('HEXISTS', KEYS[lock], successor) == 0 then
        stand(inbox, now, life, successor, lease, id)
        local remaining = redis.call('PTTL', KEYS[lock])
        return {0, 0, remaining == -2 and 0 or remaining, now}
      end
    elseif entry or successor or not redis.call('ZSCORE', KEYS[line], inbox) then
      return {0}
    end
    -- A place whose entry has expired is removed as well. Otherwise it would remain as long as a tombstone. Readers
    -- behind it may enter now.
    leave(inbox)
    if tidy(now) then
      admit(now)
    end
    return {0}
  end

  local done, reply = pcall(move)
  if not done then
    -- include repair
    messages = {}
    if unanswered and released == 0 then
      -- It is an error if the tombstone cannot be written.
      done, reply = true, move()
    else
      done, reply = pcall(move)
    end
  end
  tell()
  return done and reply or {released}
end
return general()
