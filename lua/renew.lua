-- KEYS: 1 lock (hash)
-- ARGV: 1 hold, 2 ttl
-- returns 1 the lease lasts at least the TTL from now, 0 the hold is gone
-- hold: the hold id. ttl: the TTL in ms.
local lock = KEYS[1]
local hold, ttl = unpack(ARGV)

if redis.call('HEXISTS', lock, hold) == 0 then
  return 0
end
-- A renewal that arrives late must not shorten a lease that a re-entry has lengthened.
if redis.pcall('PEXPIRE', lock, ttl, 'GT') ~= 1 and redis.call('PTTL', lock) < tonumber(ttl) then
  -- GT exists since Redis 7.0. It treats a lock without an expiry as one whose lease never expires.
  redis.call('PEXPIRE', lock, ttl)
end
return 1
