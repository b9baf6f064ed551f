-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 list, 2 ttl, 3 limit; only of readers that wait: 4 inbox, 5 lease, 6 life
-- returns the token: the lock was free, and all the holds share it with a lease of the TTL; {1, token, remaining ms, time in µs, hold, …}: these holds share the lock, with a lease of the TTL, and the others wait; {0, remaining ms or -1, time in µs}: none of the holds has the lock; {-1}: all the holds have ended
-- list: the hold ids, joined by commas. ttl: the TTL in ms. The token is the time in µs.
-- limit: the maximum number of holders; '' without a limit.
-- inbox: the channel of the waiting process. lease: the lease in ms of a lock that is handed to it.
-- life: how long its entry in the line is kept, in ms.

-- The usual case, kept short: the lock is free, and its line is empty.
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local lasts = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
  local fields, members = {'mode', time[1] .. ' ' .. time[2]}, {}
  for hold in string.gmatch(ARGV[1], '[^,]+') do
    table.insert(fields, hold)
    table.insert(fields, '1')
    table.insert(members, '-' .. lasts)
    table.insert(members, 'r' .. hold)
  end
  redis.call('HSET', KEYS[1], unpack(fields))
  local set = redis.pcall('PEXPIREAT', KEYS[1], lasts)
  if set == 1 then
    set = redis.pcall('ZADD', KEYS[2], unpack(members))
    if type(set) == 'number' then
      set = redis.pcall('PEXPIREAT', KEYS[2], lasts)
    end
    if set == 1 then
      return time[1] * 1000000 + time[2]
    end
  end
  -- Without an expiry a key would remain for ever.
  redis.call('DEL', KEYS[1], KEYS[2])
  return set
end

local function general()
  local lock, line, entries = 1, 2, 3
  local list, ttl, limit, inbox, lease, life = unpack(ARGV)
  -- include token
  -- include line
  -- include members

  local function ask()
    -- A request that arrives after the end of its hold must not take the lock.
    local holds = unburied(list)
    if not holds[1] then
      return {-1}
    end
    local now = clock()
    local is_shared = tidy(now)
    local is_free = not is_shared and redis.call('EXISTS', KEYS[lock]) == 0
    local inside, outside = within(holds)
    if inside[1] then
      -- The caller repeats its request: a response or a message was lost.
      keep(inside, ttl, now)
      is_shared = true
    end
    local is_open = is_free or is_shared
    if outside[1] then
      local ahead = is_open and head(now)
      local is_next = is_open and (not ahead or ahead == inbox)
      if is_next and (is_free or fits(#outside, limit)) then
        if inbox then
          leave(inbox)
        end
        enter(outside, ttl, now, is_free and now)
        is_free, inside, outside = false, holds, {}
      elseif inbox then
        local holder = not is_open and told(redis.call('HGET', KEYS[lock], 'mode'))
        local list = table.concat(outside, ',')
        local is_first = stand(inbox, now, life, list, lease, 'r' .. limit, holder)
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
      return {1, shown(now), redis.call('PTTL', KEYS[lock]), now, unpack(inside)}
    end
    return {0, redis.call('PTTL', KEYS[lock]), now}
  end

  local reply = attempt(ask)
  tell()
  return reply
end
return general()
