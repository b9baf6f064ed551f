-- KEYS: 1 the lock (hash), 2 its meta (string), 3 the entries of its queue (hash)
-- ARGV: none
-- returns {remaining ms, -1 without an expiry, -2 free; how many processes wait; the meta or ''; field, depth, field, depth, …}
local fields = redis.call('HGETALL', KEYS[1])
local time = redis.call('TIME')
local now, waiting = time[1] * 1000000 + time[2], 0
for _, entry in ipairs(redis.call('HVALS', KEYS[3])) do
  if tonumber(string.match(entry, '^%d+')) > now then
    waiting = waiting + 1
  end
end
return {redis.call('PTTL', KEYS[1]), waiting, redis.call('GET', KEYS[2]) or '', unpack(fields)}
