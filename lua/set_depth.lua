-- KEYS: 1 lock (hash), 2 entries (hash): the entries of its queue; only of a hold that shares the lock: 3 queue (zset)
-- ARGV: 1 hold, 2 target, 3 seq, 4 ttl
-- returns 1 the hold has this depth or a newer one, 0 the hold is gone
-- hold: the hold id. target: the depth to set. seq: the sequence number of this change, which is greater than that of
--   every earlier change.
-- ttl: the TTL in ms to which the lease is lengthened; 0 leaves the lease as it is.
local lock, entries, queue = 1, 2, 3
local hold, target, seq, ttl = unpack(ARGV)
-- include expire
-- include repair

local depth = redis.call('HGET', KEYS[lock], hold)
if not depth then
  return 0
end
local last = repair(entries, redis.pcall('HGET', KEYS[entries], hold))
if type(last) == 'table' then
  return last
end
last = tonumber(string.match(last or '', '^%d+$'))
-- A duplicate that arrives late must not undo a newer change.
if last and last < INEXACT_FROM and last >= tonumber(seq) then
  return 1
end

if tonumber(ttl) > 0 then
  if redis.call('PTTL', KEYS[lock]) < tonumber(ttl) then
    redis.call('PEXPIRE', KEYS[lock], ttl)
  end
  if KEYS[queue] and type(redis.pcall('ZSCORE', KEYS[queue], 'r' .. hold)) == 'string' then
    local time = redis.call('TIME')
    local lasts = time[1] * 1000 + math.floor(time[2] / 1000) + ttl
    redis.call('ZADD', KEYS[queue], 'XX', 'LT', string.format('-%.0f', lasts), 'r' .. hold)
    if redis.call('PTTL', KEYS[queue]) < tonumber(ttl) then
      redis.call('PEXPIRE', KEYS[queue], ttl)
    end
  end
end
local left = redis.call('PTTL', KEYS[entries])
if type(redis.pcall('HSET', KEYS[entries], hold, seq)) == 'table' then
  -- Memory is full. PEXPIRE needs no memory, and Redis allows every write after it.
  redis.call('PEXPIRE', KEYS[entries], SEQ_LIFE)
  redis.call('HSET', KEYS[entries], hold, seq)
end
-- The sequence number is kept for at least ten minutes, because a request may arrive that late.
if left < SEQ_LIFE / 2 then
  keep_at_least(entries, SEQ_LIFE, left)
end
-- The sequence number is written first. If the script ends between the two writes, it sends no reply, and another
-- change sets the depth.
depth = #depth < 16 and tonumber(string.match(depth, '^[1-9]%d*$'))
if depth then
  redis.call('HINCRBY', KEYS[lock], hold, string.format('%.0f', target - depth))
else
  -- Another program has written a value that is not a depth.
  redis.call('HSET', KEYS[lock], hold, target)
end
return 1
