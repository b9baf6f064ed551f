-- KEYS: 1 the line of a lock (zset), 2 the entries of the line (hash)
-- ARGV: 1 the order in the line behind which to begin, or '' at its beginning, 2 how many places to show at most
-- returns {time in µs; how many places there are; inbox, its order, deadline in µs, holds, lease in ms, 1 if they share the lock, else 0, inbox, …}, with the deadline 0 where the entry is gone or cannot be read
local line, entries = unpack(KEYS)
local after = ARGV[1] == '' and '0' or '(' .. ARGV[1]
-- include entry
-- include read

local time = redis.call('TIME')
local count = read('ZCOUNT', line, 0, '(4503599627370496')
local shown = {time[1] * 1000000 + time[2], type(count) == 'number' and count or 0}
local places = read('ZRANGE', line, after, '(4503599627370496', 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')
local inboxes = {}
for at = 1, #places, 2 do
  table.insert(inboxes, places[at])
end
local found = inboxes[1] and read('HMGET', entries, unpack(inboxes)) or {}
for at, inbox in ipairs(inboxes) do
  -- Alive at some time, if it can be read at all.
  local entry = found[at] or ''
  local holds, lease, _, limit = alive(entry, 0)
  table.insert(shown, inbox)
  table.insert(shown, math.floor(places[2 * at]))
  table.insert(shown, holds and tonumber(string.match(entry, '^%d+')) or 0)
  table.insert(shown, holds or '')
  table.insert(shown, holds and tonumber(lease) or 0)
  table.insert(shown, limit and 1 or 0)
end
return shown
