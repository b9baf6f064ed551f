-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 hold, 2 inbox; only if its process wants a message when another one begins to wait: 3 id
-- returns 1 another process waits, 0 no other process waits, -1 the hold is gone
-- hold: the hold id. inbox: the channel of its process. id: the UUID of the inbox.
local lock, line, entries = 1, 2, 3
local hold, inbox, id = unpack(ARGV)
-- include token
-- include entry
-- include read

local depth, stored = unpack(redis.call('HMGET', KEYS[lock], hold, 'mode'))
if not depth then
  return -1
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- Dead processes may fill the places that are read here. They are removed in the meantime, so a later request sees what
-- is behind them.
for _, other in ipairs(read(redis.pcall('ZRANGE', KEYS[line], 0, '(TOMBSTONES_FROM', 'BYSCORE', 'LIMIT', 0, 64))) do
  local entry = other ~= inbox and redis.pcall('HGET', KEYS[entries], other)
  if type(entry) == 'string' and alive(entry, now) then
    return 1
  end
end
local token = id and known(stored)
-- A shared lock has no single holder that could get the message.
if token and not read(redis.pcall('ZRANGE', KEYS[line], '(-INEXACT_FROM', '(0', 'BYSCORE', 'LIMIT', 0, 1))[1] then
  redis.call('HSET', KEYS[lock], 'mode', written(token, id))
end
return failed or 0
