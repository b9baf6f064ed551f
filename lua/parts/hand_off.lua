-- Part: the usual hand-off: the lock goes to the first process in the queue, which wants it exclusively. Needs the part
-- token. All other cases are those of the parts queue and readers.
-- include entry

-- `stored` is the field `mode` of the lock, whose hold ends. Returns true if the lock has moved, or is free because it
-- could not. Otherwise nothing has changed: this writes only if everything that it has read is valid.
local function hand_off(lock, queue, entries, stored)
  local inbox, order, follower = unpack(redis.pcall('ZRANGE', KEYS[queue], 0, 1, 'WITHSCORES'))
  order = tonumber(order)
  local waits = order and order > 0 and order < TOMBSTONES_FROM
  local entry = waits and redis.pcall('HGET', KEYS[entries], inbox)
  local time = type(entry) == 'string' and redis.pcall('TIME')
  local now = time and time[1] and time[1] * 1000000 + time[2]
  local hold, lease, id, limit = live_entry(now and entry, now)
  if not hold or limit or (parse_token(stored) or now) >= now then
    return false
  end

  -- DEL comes first: Redis allows it when memory is full, and then every write after it. A failure after it does not mean
  -- that the release was rejected.
  local is_out = true
  if follower then
    redis.call('DEL', KEYS[lock])
    is_out = redis.pcall('ZREM', KEYS[queue], inbox) == 1
      and redis.pcall('HDEL', KEYS[entries], inbox) == 1
  else
    redis.call('DEL', KEYS[lock], KEYS[queue], KEYS[entries])
  end
  if not is_out then
    return true
  end
  local token = time[1] .. ' ' .. time[2]
  redis.pcall('HSET', KEYS[lock], hold, '1', 'mode', id and token .. ' ' .. id or token)
  if redis.pcall('PEXPIRE', KEYS[lock], lease) == 1 then
    local name, given = KEYS[lock], string.format(' %.0f %.0f ', now, now)
    redis.pcall('PUBLISH', inbox, hold .. given .. lease .. ' ' .. name)
  else
    -- Without an expiry the lock would be held for ever.
    redis.pcall('DEL', KEYS[lock])
  end
  return true
end
