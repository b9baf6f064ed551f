-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 hold, 2 ttl, 3 token
-- returns 1 the hold shares the lock from now on, at least for the TTL, 0 the hold is gone
-- hold: the hold id. ttl: the TTL in ms. token: the token of the hold.
local lock, line, entries = 1, 2, 3
local hold, ttl, token = unpack(ARGV)
-- include token
-- include line
-- include members

local function share()
  if redis.call('HEXISTS', KEYS[lock], hold) == 0 then
    return 0
  end
  -- If call graphs have continued the hold in memory, its token is later than the stored one.
  if (known(redis.call('HGET', KEYS[lock], 'mode')) or 0) < tonumber(token) then
    redis.call('HSET', KEYS[lock], 'mode', written(token))
  end
  local now, lease = clock(), tonumber(ttl)
  if not redis.call('ZSCORE', KEYS[line], 'r' .. hold) then
    -- The lease is never shorter than the holder believes.
    lease = math.max(lease, redis.call('PTTL', KEYS[lock]))
  end
  keep({hold}, string.format('%.0f', lease), now)
  admit(now)
  return 1
end

local done, reply = pcall(share)
if not done then
  -- include repair
  messages = {}
  reply = share()
end
tell()
return reply
