-- KEYS: 1 the lock (hash), 2 its meta (string), 3 its queue (zset), 4 the entries of the queue (hash)
-- ARGV: 1 a hold id that was seen in the lock, 2 the token that was seen with it, or '' if it has none
-- returns 1 the hold was ended and the lock moved on, 0 it is not what was seen
local lock, meta, queue, entries = unpack(KEYS)
local hold, seen = unpack(ARGV)
-- include take
-- include queue

if redis.call('HEXISTS', lock, hold) == 0 then
  return 0
end
local seconds, micros = string.match(redis.call('GET', meta) or '', '^(%d+) (%d+)')
if seen ~= '' and not (seconds and seconds * 1000000 + micros == tonumber(seen)) then
  return 0
end
redis.call('DEL', lock)
local inbox, entry = head(clock())
if inbox then
  grant(inbox, entry)
end
return 1
