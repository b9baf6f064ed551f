-- KEYS: each a lock (hash)
-- ARGV: 1 ttl, then for each key: hold
-- returns 0 all leases last at least the TTL from now, or for each key: 1 its lease does, 0 its hold is gone, -1 it
--   has met an error, and nothing is known about it; if all keys have met an error, the reply is the last error
-- ttl: the TTL in ms. hold: the hold id in the lock of that key.
local ttl = ARGV[1]
local replies, renewed, failed = {}, 0, 0

for lock = 1, #KEYS do
  local done = redis.pcall('HEXISTS', KEYS[lock], ARGV[lock + 1])
  -- A renewal that arrives late must not shorten a lease that a re-entry has lengthened.
  if done == 1
    and redis.pcall('PEXPIRE', KEYS[lock], ttl, 'GT') ~= 1
    and redis.call('PTTL', KEYS[lock]) < tonumber(ttl) then
    -- GT exists since Redis 7.0. It treats a lock without an expiry as a lock whose lease never expires.
    done = redis.pcall('PEXPIRE', KEYS[lock], ttl)
  end
  if done == 1 then
    renewed = renewed + 1
  elseif done ~= 0 then
    failed = failed + 1
    if failed == #KEYS then
      return done
    end
    done = -1
  end
  replies[lock] = done
end
if renewed == #KEYS then
  return 0
end
return replies
