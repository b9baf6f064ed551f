-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 hold id, 2 TTL in ms; to wait also: 3 inbox, 4 lease in ms of a lock that moves there, 5 life of the entry in ms, 6 the id of the inbox if it is to be told who else comes to wait, else '', 7 '1' if it goes before those who share the lock
-- returns the token of a lock that was free, which is the time in µs, with a lease of the TTL; {1, token, lease in ms, time in µs} held by this hold; {0, remaining ms or -1, time in µs} busy; {-1} this hold has ended

-- The usual case, kept short: the lock is free, and nothing stands in its line.
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local token = time[1] .. ' ' .. time[2]
  if ARGV[6] and ARGV[6] ~= '' then
    token = token .. ' ' .. ARGV[6]
  end
  redis.call('HSET', KEYS[1], ARGV[1], '1', 'token', token)
  local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if set == 1 then
    return time[1] * 1000000 + time[2]
  end
  -- Without an expiry it would stand for ever.
  redis.call('DEL', KEYS[1])
  return set
end

local function general()
  local lock, line, entries = unpack(KEYS)
  local hold, ttl, inbox, lease, life, id, preferred = unpack(ARGV)
  id = id ~= '' and id or nil
  -- include token
  -- include line
  -- include members

  local function ask()
    -- A request that was overtaken by the end of its own hold must not take the lock.
    if redis.call('ZSCORE', line, 'x' .. hold) then
      return {-1}
    end
    local now = clock()
    local is_shared = tidy(now)
    local remaining = redis.call('PTTL', lock)
    local ahead, holder
    if remaining ~= -2 then
      local depth, stored = unpack(redis.call('HMGET', lock, hold, 'token'))
      holder = told(stored)
      if depth then
        -- Asked again after an answer that never came, or told by no message: never a shorter lease, and
        -- the same token.
        if remaining < tonumber(ttl) then
          redis.call('PEXPIRE', lock, ttl)
          remaining = tonumber(ttl)
        end
        local token = known(stored)
        if not token then
          token = now
          redis.call('HSET', lock, 'token', written(token, id))
        end
        return {1, token, remaining, now}
      end
    else
      ahead = head(now)
      if not ahead or ahead == inbox then
        if ahead then
          leave(ahead)
        end
        take(hold, ttl, now, id)
        return {1, now, tonumber(ttl), now}
      end
    end
    local is_first = inbox and stand(inbox, now, life, hold, lease, id, holder, preferred == '1')
    if ahead or is_shared then
      remaining = math.max(remaining, admit(now, not is_shared, now) or remaining)
    elseif is_first and holder and holder ~= inbox then
      notify(holder, 'contended ')
    end
    return {0, remaining, now}
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
