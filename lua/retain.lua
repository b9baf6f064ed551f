-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 hold, 2 how long the lock is held at least in ms, 3 'x' to leave a tombstone, or ''
-- returns 1 the lock stands until it was held for so long, 0 the hold is not in it, or was for so long already
local lock, line, entries = unpack(KEYS)
local hold, least, marks = unpack(ARGV)
-- include token
-- include line

local found = redis.call('HMGET', lock, hold, 'token')
local token = known(found[2])
if not found[1] or not token then
  return 0
end
local now = clock()
-- Counted from the token, which is the time at which the lock was taken: a repetition changes nothing. The token is
-- ahead of a clock that was set back.
local ends = math.ceil(math.min(token, now) / 1000) + least
if ends <= math.floor(now / 1000) then
  return 0
end
if marks == 'x' then
  if not pcall(bury, hold, now) then
    -- include mend
    bury(hold, now)
  end
end
redis.call('PEXPIREAT', lock, string.format('%.0f', ends))
return 1
