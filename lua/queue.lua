-- KEYS: 1 line (zset): the queue of a lock, 2 entries (hash): the entries of the line
-- ARGV: 1 after, 2 most
-- returns {time in µs; number of places; inbox, its order, deadline in µs, holds, lease in ms, 1 if they share the lock, else 0, inbox, …}; the deadline is 0 if the entry is gone or cannot be read
-- after: the order in the line after which the page begins; '' for the beginning. most: the maximum number of places to
--   return.
local line, entries = 1, 2
local after, most = unpack(ARGV)
local from = after == '' and '0' or '(' .. after
-- include entry
-- include read

local time = redis.call('TIME')
local count = read(redis.pcall('ZCOUNT', KEYS[line], 0, '(TOMBSTONES_FROM'))
local shown = {time[1] * 1000000 + time[2], type(count) == 'number' and count or 0}
local places = read(redis.pcall('ZRANGE', KEYS[line], from, '(TOMBSTONES_FROM', 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES'))
local inboxes = {}
for at = 1, #places, 2 do
  table.insert(inboxes, places[at])
end
local found = inboxes[1] and read(redis.pcall('HMGET', KEYS[entries], unpack(inboxes))) or {}
for at, inbox in ipairs(inboxes) do
  -- With the time 0, every entry that can be read counts as alive.
  local entry = found[at] or ''
  local holds, lease, _, limit = alive(entry, 0)
  table.insert(shown, inbox)
  table.insert(shown, math.floor(places[2 * at]))
  table.insert(shown, holds and tonumber(string.match(entry, '^%d+')) or 0)
  table.insert(shown, holds or '')
  table.insert(shown, holds and tonumber(lease) or 0)
  table.insert(shown, limit and 1 or 0)
end
return failed or shown
