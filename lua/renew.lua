-- KEYS: 1 the lock (hash); where it is time to keep it also: 2 its meta (string)
-- ARGV: 1 hold id, 2 TTL in ms, 3 least life of the meta in ms
-- returns 1 the lease lasts at least the TTL from now, 0 the hold is gone
local lock, meta = unpack(KEYS)
local hold, ttl, meta_life = unpack(ARGV)

if redis.call('HEXISTS', lock, hold) == 0 then
  return 0
end
-- A renewal that arrives late must not shorten a lease that a re-entry has lengthened, nor the life
-- of the meta below it.
if redis.pcall('PEXPIRE', lock, ttl, 'GT') ~= 1 and redis.call('PTTL', lock) < tonumber(ttl) then
  -- GT came with Redis 7.0, and takes a lock without an expiry for one with an endless lease.
  redis.call('PEXPIRE', lock, ttl)
end
if meta and redis.call('PTTL', meta) < tonumber(meta_life) then
  redis.call('PEXPIRE', meta, meta_life)
end
return 1
