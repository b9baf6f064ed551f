-- KEYS: 1 the lock (hash), 2 the entries of its line (hash); of a hold that shares the lock: 3 its line (zset)
-- ARGV: 1 hold id, 2 the depth to reach, 3 sequence number, 4 TTL in ms to lengthen the lease to (0: leave it)
-- returns 1 the hold is there and its depth is this one or a newer one, 0 the hold is gone
local lock, entries, line = unpack(KEYS)
local hold, target, seq, ttl = unpack(ARGV)

if redis.call('HEXISTS', lock, hold) == 0 then
  return 0
end
local last = redis.pcall('HGET', entries, hold)
if type(last) == 'table' then
  -- The key is the crate's own: what has another type there is removed. Any other error comes again.
  if string.find(last.err, 'WRONGTYPE', 1, true) then
    redis.call('DEL', entries)
  end
  last = redis.call('HGET', entries, hold)
end
last = tonumber(string.match(last or '', '^%d+$'))
-- A duplicate that arrives late must not undo a newer change.
if last and last < 9007199254740992 and last >= tonumber(seq) then
  return 1
end

if tonumber(ttl) > 0 then
  if redis.call('PTTL', lock) < tonumber(ttl) then
    redis.call('PEXPIRE', lock, ttl)
  end
  if line and type(redis.pcall('ZSCORE', line, 'r' .. hold)) == 'string' then
    local time = redis.call('TIME')
    local lasts = time[1] * 1000 + math.floor(time[2] / 1000) + ttl
    redis.call('ZADD', line, 'XX', 'LT', string.format('-%.0f', lasts), 'r' .. hold)
    if redis.call('PTTL', line) < tonumber(ttl) then
      redis.call('PEXPIRE', line, ttl)
    end
  end
end
if type(redis.pcall('HSET', entries, hold, seq)) == 'table' then
  -- Memory is full: after a write that needs none every other is allowed.
  redis.call('PEXPIRE', entries, 1200000)
  redis.call('HSET', entries, hold, seq)
end
-- The number is kept for ten minutes at least, as long as a request may be late.
if redis.call('PTTL', entries) < 600000 then
  redis.call('PEXPIRE', entries, 1200000)
end
-- The number comes first: a change that dies between the two was not answered, and is made up for by another.
redis.call('HSET', lock, hold, target)
return 1
