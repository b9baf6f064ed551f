-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 ids of holds that share the lock, joined by commas, 2 TTL in ms, 3 at most so many holders, or '' without a limit, 4 '1' if they go before those who want the lock for themselves alone; to wait also: 5 inbox, 6 lease in ms of a lock that moves there, 7 life of the entry in ms
-- returns the token of a lock that was free, which is the time in µs, with a lease of the TTL for all of them; {1, token, remaining ms, time in µs, hold, …} these are in, with a lease of the TTL, and others wait; {0, remaining ms or -1, time in µs} busy; {-1} all of them have ended

-- The usual case, kept short: the lock is free, and nothing stands in its line.
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local lasts = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
  local fields, members = {'token', time[1] .. ' ' .. time[2]}, {}
  for hold in string.gmatch(ARGV[1], '[^,]+') do
    table.insert(fields, hold)
    table.insert(fields, '1')
    table.insert(members, '-' .. lasts)
    table.insert(members, 'r' .. hold)
  end
  redis.call('HSET', KEYS[1], unpack(fields))
  local set = redis.pcall('PEXPIREAT', KEYS[1], lasts)
  if set == 1 then
    redis.call('ZADD', KEYS[2], unpack(members))
    redis.call('PEXPIREAT', KEYS[2], lasts)
    return time[1] * 1000000 + time[2]
  end
  -- Without an expiry it would stand for ever.
  redis.call('DEL', KEYS[1])
  return set
end

local function general()
  local lock, line, entries = unpack(KEYS)
  local list, ttl, limit, passes, inbox, lease, life = unpack(ARGV)
  -- include token
  -- include line
  -- include members

  local function ask()
    -- A request that was overtaken by the end of its own hold must not take the lock.
    local holds = unburied(list)
    if not holds[1] then
      return {-1}
    end
    local now = clock()
    local is_shared = tidy(now)
    local is_free = not is_shared and redis.call('EXISTS', lock) == 0
    local inside, outside = within(holds)
    if inside[1] then
      -- Asked again after an answer that never came, or told by no message.
      keep(inside, ttl, now)
      is_shared = true
    end
    local is_open = is_free or is_shared
    if outside[1] then
      local ahead, wish
      if is_open then
        ahead, wish = head(now)
      end
      -- It passes those who want the lock for themselves alone.
      local is_next = is_open and (not ahead or ahead == inbox or (is_shared and passes == '1' and not wish[4]))
      if is_next and (is_free or fits(#outside, limit)) then
        if inbox then
          leave(inbox)
        end
        enter(outside, ttl, now, is_free and now)
        is_free, inside, outside = false, holds, {}
      elseif inbox then
        local holder = not is_open and told(redis.call('HGET', lock, 'token'))
        local list = table.concat(outside, ',')
        local is_first = stand(inbox, now, life, list, lease, 'r' .. limit, holder, passes == '1')
        if is_first and holder and holder ~= inbox then
          notify(holder, 'contended ')
        end
      end
    end
    if is_open then
      admit(now, is_free, now, inbox, ttl)
      inside = outside[1] and within(holds) or inside
    end
    if inside[1] then
      return {1, shown(now), redis.call('PTTL', lock), now, unpack(inside)}
    end
    return {0, redis.call('PTTL', lock), now}
  end

  local done, reply = pcall(ask)
  if not done then
    -- include mend
    messages = {}
    reply = ask()
  end
  tell()
  return reply
end
return general()
