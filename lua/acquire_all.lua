-- KEYS: for each key its lock (hash) and its line (zset)
-- ARGV: 1 hold id, 2 TTL in ms
-- returns the token of all locks if they were free, which is the time in µs, with leases of the TTL; {1, time in µs, then for each key: token, lease in ms} this hold has had them all before; {0, index} busy: the first that is not free, and nothing has changed; {-1} this hold has ended

-- Takes them all with one token, or none of them. What was taken without an expiry would stand for ever.
local function take()
  local time = redis.call('TIME')
  local token = time[1] .. ' ' .. time[2]
  for at = 1, #KEYS, 2 do
    local done = redis.pcall('HSET', KEYS[at], ARGV[1], '1', 'token', token)
    if type(done) == 'number' then
      done = redis.pcall('PEXPIRE', KEYS[at], ARGV[2])
    end
    if done ~= 1 then
      for taken = 1, at, 2 do
        redis.call('DEL', KEYS[taken])
      end
      return done
    end
  end
  return time[1] * 1000000 + time[2]
end

-- The usual case, kept short: the locks are free, and nothing stands in their lines.
if redis.call('EXISTS', unpack(KEYS)) == 0 then
  return take()
end

local function general()
  local hold, ttl = unpack(ARGV)
  -- include token

  local function ask()
    -- A request that was overtaken by the end of its own hold must not take a lock: also where another lock of
    -- it has not been released yet.
    for at = 2, #KEYS, 2 do
      if redis.call('ZSCORE', KEYS[at], 'x' .. hold) then
        return {-1}
      end
    end
    local stored, mine, busy = {}, 0, nil
    for at = 1, #KEYS, 2 do
      local index = (at + 1) / 2
      local is_free = redis.call('EXISTS', KEYS[at]) == 0
      if not is_free then
        local fields = redis.call('HMGET', KEYS[at], hold, 'token')
        mine = mine + (fields[1] and 1 or 0)
        stored[index] = fields[2]
      else
        -- What stands in the line is left to those who ask for this lock alone: a place, also of a process that is
        -- dead, and readers whose lock is gone.
        local _, order = unpack(redis.call('ZRANGE', KEYS[at + 1], 0, 0, 'WITHSCORES'))
        is_free = not order or tonumber(order) >= 4503599627370496
      end
      busy = busy or (not is_free and index)
    end
    if not busy then
      return take()
    elseif mine < #KEYS / 2 then
      return {0, busy}
    end
    -- Asked again after an answer that never came: never a shorter lease, and the same tokens.
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local reply = {1, now}
    for at = 1, #KEYS, 2 do
      local remaining = redis.call('PTTL', KEYS[at])
      if remaining < tonumber(ttl) then
        redis.call('PEXPIRE', KEYS[at], ttl)
        remaining = tonumber(ttl)
      end
      local token = known(stored[(at + 1) / 2])
      if not token then
        token = now
        redis.call('HSET', KEYS[at], 'token', written(token))
      end
      reply[#reply + 1] = token
      reply[#reply + 1] = remaining
    end
    return reply
  end

  local done, reply = pcall(ask)
  if done then
    return reply
  end
  -- The lines are the crate's own: what has another type there is removed, so that the script may begin again.
  for at = 2, #KEYS, 2 do
    local read = redis.pcall('ZSCORE', KEYS[at], '')
    if type(read) == 'table' and string.find(read.err, 'WRONGTYPE', 1, true) then
      redis.call('DEL', KEYS[at])
    end
  end
  return ask()
end
return general()
