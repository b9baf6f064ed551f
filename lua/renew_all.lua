-- KEYS: the locks (hashes)
-- ARGV: 1 TTL in ms, then for each key a hold id
-- returns 0 the leases last at least the TTL from now, or the index of the first key whose hold is gone
local ttl = ARGV[1]

for at, lock in ipairs(KEYS) do
  if redis.call('HEXISTS', lock, ARGV[at + 1]) == 0 then
    return at
  end
  -- A renewal that arrives late must not shorten a lease that a re-entry has lengthened.
  if redis.pcall('PEXPIRE', lock, ttl, 'GT') ~= 1 and redis.call('PTTL', lock) < tonumber(ttl) then
    -- GT came with Redis 7.0, and takes a lock without an expiry for one with an endless lease.
    redis.call('PEXPIRE', lock, ttl)
  end
end
return 0
