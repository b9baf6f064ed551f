-- KEYS: 1 the lock (hash)
-- ARGV: 1 hold id, 2 TTL in ms
-- returns 1 the lease lasts at least the TTL from now, 0 the hold is gone
local lock = KEYS[1]
local hold, ttl = unpack(ARGV)

if redis.call('HEXISTS', lock, hold) == 0 then
  return 0
end
-- A renewal that arrives late must not shorten a lease that a re-entry has lengthened.
if redis.pcall('PEXPIRE', lock, ttl, 'GT') ~= 1 and redis.call('PTTL', lock) < tonumber(ttl) then
  -- GT came with Redis 7.0, and takes a lock without an expiry for one with an endless lease.
  redis.call('PEXPIRE', lock, ttl)
end
return 1
