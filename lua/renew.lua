-- KEYS: 1 the lock (hash), 2 its meta (hash)
-- ARGV: 1 hold id, 2 TTL in ms, 3 least life of the meta in ms
-- returns 1 the lease lasts at least the TTL from now, 0 the hold is gone
local lock, meta = KEYS[1], KEYS[2]
local hold, ttl, meta_life = ARGV[1], tonumber(ARGV[2]), ARGV[3]

if redis.call('HEXISTS', lock, hold) == 0 then
  return 0
end
-- A renewal that arrives late must not shorten a lease that a re-entry has lengthened, nor the life
-- of the meta below it.
if redis.call('PTTL', lock) < ttl then
  redis.call('PEXPIRE', lock, ttl)
  redis.call('PEXPIRE', meta, meta_life)
end
return 1
