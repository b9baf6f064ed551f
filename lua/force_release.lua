-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 a field that was seen in the lock, 2 the token that was seen with it, or '' if it has none
-- returns 1 the hold was ended and the lock moved on, 0 it is not what was seen
local lock, line, entries = unpack(KEYS)
local hold, seen = unpack(ARGV)
-- include token

local depth, stored = unpack(redis.call('HMGET', lock, hold, 'token'))
local token = known(stored)
if not depth or (seen ~= '' and token ~= tonumber(seen)) then
  return 0
end
redis.call('DEL', lock)

local function move()
  -- include line
  redis.call('HDEL', entries, hold)
  local now = clock()
  local ahead, wish = head(now)
  if ahead then
    grant(ahead, wish, math.max(now, (token or 0) + 1), now)
  end
end
-- The lock is free now, whatever becomes of it.
if not pcall(move) then
  -- include mend
  pcall(move)
end
return 1
