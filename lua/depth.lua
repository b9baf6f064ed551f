-- KEYS: 1 the lock (hash), 2 its meta (string)
-- ARGV: 1 hold id, 2 the depth to reach, 3 sequence number, 4 TTL in ms to lengthen the lease to (0: leave it), 5 least life of the meta in ms
-- returns 1 the hold is there and its depth is this one or a newer one, 0 the hold is gone
local lock, meta = unpack(KEYS)
local hold, target, seq, ttl, meta_life = unpack(ARGV)

local depth = redis.call('HGET', lock, hold)
if not depth then
  return 0
end
local state = redis.pcall('GET', meta)
if state and state.err then
  -- No string stands there; any other error comes again.
  state = not string.find(state.err, 'WRONGTYPE', 1, true) and redis.call('GET', meta)
end
local token, owner, last = string.match(state or '', '^(%d+ %d+) (%S+) (%d+)$')
local known = owner == hold and tonumber(last) < 9007199254740992
-- A duplicate that arrives late must not undo a newer change.
if known and tonumber(last) >= tonumber(seq) then
  return 1
end

local longer = tonumber(ttl) > 0 and redis.call('PTTL', lock) < tonumber(ttl)
if longer then
  redis.call('PEXPIRE', lock, ttl)
end
-- The token of a meta that was lost is not known here: it reads 0.
state = (token or '0 0') .. ' ' .. hold .. ' ' .. seq
-- The meta outlives the lease already, unless it is new or the lease has grown.
local write = {'SET', meta, state, 'PX', meta_life}
if known and not longer then
  write = {'SET', meta, state, 'KEEPTTL'}
end
if redis.pcall(unpack(write)).err then
  -- Memory is full: after a write that needs none every other is allowed.
  redis.call('PEXPIRE', meta, meta_life)
  redis.call(unpack(write))
end
depth = tonumber(depth)
if not depth or redis.pcall('HINCRBY', lock, hold, target - depth) ~= tonumber(target) then
  -- What is there is no depth.
  redis.call('HSET', lock, hold, target)
end
return 1
