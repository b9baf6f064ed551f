-- KEYS: 1 the lock (hash), 2 its meta (string), 3 its queue (zset), 4 the entries of the queue (hash)
-- ARGV: 1 a field that was seen in the lock, 2 the token that was seen with it, or '' if it has none
-- returns 1 the hold was ended and the lock moved on, 0 it is not what was seen
local lock, meta, queue, entries = unpack(KEYS)
local hold, seen = unpack(ARGV)
-- include meta

if redis.call('HEXISTS', lock, hold) == 0 or (seen ~= '' and known() ~= tonumber(seen)) then
  return 0
end
redis.call('DEL', lock)

local function move()
  -- include take
  -- include queue
  local ahead, wish = head(clock())
  if ahead then
    grant(ahead, wish)
  else
    redis.call('DEL', entries)
  end
end
-- The lock is free now, whatever becomes of it.
if not pcall(move) then
  -- include mend
  pcall(move)
end
return 1
