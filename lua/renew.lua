-- KEYS: each a lock (hash)
-- ARGV: 1 ttl, then for each key: hold
-- returns 0 the leases last at least the TTL from now, or the index of the first key whose hold is gone
-- ttl: the TTL in ms. hold: the hold id in the lock of that key.
local ttl = ARGV[1]

for at, lock in ipairs(KEYS) do
  if redis.call('HEXISTS', lock, ARGV[at + 1]) == 0 then
    return at
  end
  -- A renewal that arrives late must not shorten a lease that a re-entry has lengthened.
  if redis.pcall('PEXPIRE', lock, ttl, 'GT') ~= 1 and redis.call('PTTL', lock) < tonumber(ttl) then
    -- GT exists since Redis 7.0. It treats a lock without an expiry as one whose lease never expires.
    redis.call('PEXPIRE', lock, ttl)
  end
end
return 0
