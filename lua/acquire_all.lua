-- KEYS: for each key 1 lock (hash), 2 line (zset): its queue; after them for each key entries (hash): the entries of its line
-- ARGV: 1 hold, 2 ttl
-- returns the token of all locks: they were free, and have leases of the TTL; {1, time in µs, then for each key: token, lease in ms}: this hold already had them all; {0, index}: the first key whose lock is not free; nothing has changed; {-1}: this hold has ended
-- hold: the hold id. ttl: the TTL in ms. The token is the time in µs.

local count = #KEYS / 3

-- Takes all the locks with one token, or none of them. A lock without an expiry would be held for ever.
local function take_all()
  local time = redis.call('TIME')
  local token = time[1] .. ' ' .. time[2]
  for at = 1, 2 * count, 2 do
    local done = redis.pcall('HSET', KEYS[at], ARGV[1], '1', 'mode', token)
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

-- The usual case, kept short: the locks are free, and their lines are empty.
local present = 0
for at = 1, 2 * count, 2 do
  local line = at + 1
  present = present + redis.call('EXISTS', KEYS[at], KEYS[line])
end
if present == 0 then
  return take_all()
end

local function general()
  local hold, ttl = unpack(ARGV)
  local lock, line, entries
  -- include token
  -- include line
  -- include members

  local function each()
    local index = 0
    return function()
      index = index + 1
      lock, line, entries = 2 * index - 1, 2 * index, 2 * count + index
      return index <= count and index or nil
    end
  end

  local function ask()
    -- A request that arrives after the end of its hold must not take a lock. This applies even if another lock of the
    -- hold has not been released yet.
    for _ in each() do
      if redis.call('ZSCORE', KEYS[line], 'x' .. hold) then
        return {-1}
      end
    end
    local now = clock()
    local stored, mine, busy = {}, 0, nil
    for index in each() do
      -- Dead readers and dead places are removed from the line.
      tidy(now)
      if redis.call('EXISTS', KEYS[lock]) == 1 then
        local fields = redis.call('HMGET', KEYS[lock], hold, 'mode')
        mine = mine + (fields[1] and 1 or 0)
        stored[index] = fields[2]
        busy = busy or index
      elseif not busy and head(now) then
        busy = index
      end
    end
    if not busy then
      return take_all()
    elseif mine < count then
      return {0, busy}
    end
    -- The caller repeats its request: a response was lost. The tokens stay as they are, and no lease is shortened.
    local reply = {1, now}
    for index in each() do
      local remaining = redis.call('PTTL', KEYS[lock])
      if remaining < tonumber(ttl) then
        redis.call('PEXPIRE', KEYS[lock], ttl)
        remaining = tonumber(ttl)
      end
      local token = known(stored[index])
      if not token then
        token = now
        redis.call('HSET', KEYS[lock], 'mode', written(token))
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
  for _ in each() do
    -- include repair
  end
  return ask()
end
return general()
