-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 hold, 2 the field that takes its place, 3 how long the lock is held at least in ms, 4 marks: 'x' to leave a tombstone, 'd' if its depth has changed, or ''
-- returns 1 the lock stands until it was held for so long, 0 the hold is not in it, or was for so long already
local lock, line, entries = unpack(KEYS)
local hold, kept, least, marks = unpack(ARGV)
-- include token
-- include line

local found = redis.call('HMGET', lock, hold, kept, 'token')
local token = known(found[3])
if not (found[1] or found[2]) or not token then
  return 0
end
local now = clock()
-- Counted from the token, which is the time at which the lock was taken: a repetition changes nothing. The token is
-- ahead of a clock that was set back.
local ends = math.ceil(math.min(token, now) / 1000) + least
if ends <= math.floor(now / 1000) then
  return 0
end
local function leave_marks()
  if string.find(marks, 'x', 1, true) then
    bury(hold, now)
  end
  if string.find(marks, 'd', 1, true) then
    redis.call('HDEL', entries, hold)
  end
end
if not pcall(leave_marks) then
  -- include mend
  leave_marks()
end
redis.call('PEXPIREAT', lock, string.format('%.0f', ends))
if found[1] then
  -- A request of the hold that comes late must not find it. A write that needs no memory comes first.
  redis.call('HDEL', lock, hold)
  redis.call('HSET', lock, kept, '1')
end
return 1
