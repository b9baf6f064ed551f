-- KEYS: 1 the lock (hash), 2 its meta (hash), 3 the tombstone of this hold (string)
-- ARGV: 1 hold id, 2 TTL in ms, 3 least life of the meta in ms
-- returns {1, token, lease in ms} held by this hold; {0, remaining ms or -1} busy; {-1} this hold has ended
local lock, meta, gone = KEYS[1], KEYS[2], KEYS[3]
local hold, ttl, meta_life = ARGV[1], tonumber(ARGV[2]), ARGV[3]

-- A request that was overtaken by the end of its own hold must not take the lock.
if redis.call('EXISTS', gone) == 1 then
  return {-1}
end

local held = redis.call('HLEN', lock) > 0
local mine = held and redis.call('HEXISTS', lock, hold) == 1
if held and not mine then
  return {0, redis.call('PTTL', lock)}
end

local last = redis.call('HMGET', meta, 'token', 'hold')
local lease = ttl
if mine then
  -- Asked again after an answer that never came: never a shorter lease, and the same token.
  lease = math.max(ttl, redis.call('PTTL', lock))
  if last[1] and last[2] == hold then
    if lease == ttl then
      redis.call('PEXPIRE', lock, ttl)
      redis.call('PEXPIRE', meta, meta_life)
    end
    return {1, tonumber(last[1]), lease}
  end
end

local now = redis.call('TIME')
local token = now[1] * 1000000 + now[2]
if last[1] and tonumber(last[1]) >= token then
  token = tonumber(last[1]) + 1
end
-- The token is stored before the lock is taken: a script that dies between the two wastes a number.
redis.call('HSET', meta, 'token', string.format('%.0f', token), 'hold', hold, 'seq', 0)
redis.call('PEXPIRE', meta, meta_life)
if not mine then
  redis.call('HINCRBY', lock, hold, 1)
end
redis.call('PEXPIRE', lock, lease)
return {1, token, lease}
