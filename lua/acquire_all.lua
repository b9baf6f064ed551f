-- KEYS: for each key its lock (hash) and its line (zset); behind them for each key the entries of its line (hash)
-- ARGV: 1 hold id, 2 TTL in ms
-- returns the token of all locks if they were free, which is the time in µs, with leases of the TTL; {1, time in µs, then for each key: token, lease in ms} this hold has had them all before; {0, index} busy: the first that is not free, and nothing has changed; {-1} this hold has ended

local count = #KEYS / 3

-- Takes them all with one token, or none of them. What was taken without an expiry would stand for ever.
local function take_all()
  local time = redis.call('TIME')
  local token = time[1] .. ' ' .. time[2]
  for at = 1, 2 * count, 2 do
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
if redis.call('EXISTS', unpack(KEYS, 1, 2 * count)) == 0 then
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
      lock, line, entries = KEYS[2 * index - 1], KEYS[2 * index], KEYS[2 * count + index]
      return index <= count and index or nil
    end
  end

  local function ask()
    -- A request that was overtaken by the end of its own hold must not take a lock: also where another lock of
    -- it has not been released yet.
    for _ in each() do
      if redis.call('ZSCORE', line, 'x' .. hold) then
        return {-1}
      end
    end
    local now = clock()
    local stored, mine, busy = {}, 0, nil
    for index in each() do
      -- What is dead in the line is removed: readers, and places.
      tidy(now)
      if redis.call('EXISTS', lock) == 1 then
        local fields = redis.call('HMGET', lock, hold, 'token')
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
    -- Asked again after an answer that never came: never a shorter lease, and the same tokens.
    local reply = {1, now}
    for index in each() do
      local remaining = redis.call('PTTL', lock)
      if remaining < tonumber(ttl) then
        redis.call('PEXPIRE', lock, ttl)
        remaining = tonumber(ttl)
      end
      local token = known(stored[index])
      if not token then
        token = now
        redis.call('HSET', lock, 'token', written(token))
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
    -- include mend
  end
  return ask()
end
return general()
