-- KEYS: 1 the lock (hash), 2 its queue (zset), 3 the tombstone of this hold (string), 4 the meta (string), 5 the entries of the queue (hash)
-- ARGV: 1 hold id, 2 TTL in ms, 3 least life of the meta in ms; to wait also: 4 inbox, 5 lease in ms of a lock that moves there, 6 life of the entry in ms
-- returns the token of a lock that was free, which is the time, with a lease of the TTL; {1, token, lease in ms, time in µs} held by this hold; {0, remaining ms or -1, time in µs} busy; {-1} this hold has ended

-- The usual case, kept short: the lock is free, no process waits, and this hold has not ended.
if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) == 0 then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local state = time[1] .. ' ' .. time[2] .. ' ' .. ARGV[1] .. ' 0'
  local before = redis.pcall('SET', KEYS[4], state, 'PX', ARGV[3], 'GET')
  if before and before.err then
    -- An error, since a string has no such field. The key is the crate's own: what has another type
    -- there is overwritten, and any other error comes again.
    redis.call('SET', KEYS[4], state, 'PX', ARGV[3])
    before = nil
  end
  local seconds, micros
  if before then
    seconds, micros = string.match(before, '^(%d+) (%d+)')
  end
  if not seconds or seconds * 1000000 + micros < now then
    redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
    local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    if set == 1 then
      return now
    end
    -- Without an expiry it would stand for ever.
    redis.call('HDEL', KEYS[1], ARGV[1])
    return set
  end
  -- The last token is ahead of the clock: the next one is found below.
  redis.call('SET', KEYS[4], before, 'PX', ARGV[3])
end

local lock, queue, gone, meta, entries = unpack(KEYS)
local function ask()
  local hold, ttl, meta_life, inbox, lease, life = unpack(ARGV)
  -- A request that was overtaken by the end of its own hold must not take the lock.
  if redis.call('EXISTS', gone) == 1 then
    return {-1}
  end
  -- include take
  -- include queue

  local remaining
  if redis.call('HEXISTS', lock, hold) == 1 then
    -- Asked again after an answer that never came, or told by no message: never a shorter lease, and
    -- the same token.
    -- include meta
    remaining = redis.call('PTTL', lock)
    local token, owner = known()
    if remaining < tonumber(ttl) then
      redis.call('PEXPIRE', lock, ttl)
      redis.call('PEXPIRE', meta, meta_life)
      remaining = tonumber(ttl)
    end
    if owner == hold then
      return {1, token, remaining, clock()}
    end
    local now
    token, now = next_token(hold, meta_life)
    return {1, token, remaining, now}
  end

  local now = clock()
  local ahead, wish
  remaining = redis.call('PTTL', lock)
  if remaining == -2 then
    ahead, wish = head(now)
    if not ahead or ahead == inbox then
      if ahead then
        leave(ahead)
      end
      local token, at = take(hold, ttl, meta_life)
      return {1, token, tonumber(ttl), at}
    end
  end
  if inbox then
    stand(inbox, now, life, hold, lease, meta_life)
  end
  if ahead then
    remaining = grant(ahead, wish)
  end
  return {0, remaining, now}
end

local done, reply = pcall(ask)
if done then
  return reply
end
-- include mend
return ask()
