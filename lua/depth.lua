-- KEYS: 1 the lock (hash), 2 its meta (hash)
-- ARGV: 1 hold id, 2 the depth to reach, 3 sequence number, 4 TTL in ms to lengthen the lease to (0: leave it), 5 least life of the meta in ms
-- returns 1 the hold is there and its depth is this one or a newer one, 0 the hold is gone
local lock, meta = KEYS[1], KEYS[2]
local hold, target, seq, ttl, meta_life = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local depth = redis.call('HGET', lock, hold)
if not depth then
  return 0
end
local state = redis.call('HMGET', meta, 'hold', 'seq')
local known = state[1] == hold
-- A duplicate that arrives late must not undo a newer change.
if known and state[2] and tonumber(state[2]) >= seq then
  return 1
end

local longer = ttl > 0 and redis.call('PTTL', lock) < ttl
if longer then
  redis.call('PEXPIRE', lock, ttl)
end
if type(redis.pcall('HSET', meta, 'hold', hold, 'seq', ARGV[3])) == 'table' then
  -- Memory is full: after a write that needs none every other is allowed.
  redis.call('PEXPIRE', meta, meta_life)
  redis.call('HSET', meta, 'hold', hold, 'seq', ARGV[3])
end
-- It outlives the lease already, unless it is new or the lease has grown.
if longer or not known then
  redis.call('PEXPIRE', meta, meta_life)
end
redis.call('HINCRBY', lock, hold, target - depth)
return 1
