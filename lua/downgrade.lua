-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 hold id, 2 TTL in ms, 3 its token
-- returns 1 the hold shares the lock from now on, for the TTL at least, 0 the hold is gone
local lock, line, entries = unpack(KEYS)
local hold, ttl, token = unpack(ARGV)
-- include token
-- include line
-- include members

local function share()
  if redis.call('HEXISTS', lock, hold) == 0 then
    return 0
  end
  -- Call graphs that went on with the hold in memory have had later tokens than the store knows of.
  if (known(redis.call('HGET', lock, 'token')) or 0) < tonumber(token) then
    redis.call('HSET', lock, 'token', written(token))
  end
  local now, lease = clock(), tonumber(ttl)
  if not redis.call('ZSCORE', line, 'r' .. hold) then
    -- What the holder believes of its lease stays true.
    lease = math.max(lease, redis.call('PTTL', lock))
  end
  keep({hold}, string.format('%.0f', lease), now)
  admit(now)
  return 1
end

local done, reply = pcall(share)
if not done then
  -- include mend
  messages = {}
  reply = share()
end
tell()
return reply
