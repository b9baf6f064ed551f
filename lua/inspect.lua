-- KEYS: 1 the lock (hash), 2 its meta (string), 3 the entries of its queue (hash)
-- ARGV: 1 how many fields to show at most
-- returns {remaining ms, -1 without an expiry, -2 free; how many processes wait; the token of a hold in it or 0; field, depth, field, depth, …}
local lock, meta, entries = unpack(KEYS)
-- include meta
-- include entry

local fields = redis.call('HGETALL', lock)
local last, owner = known()
local token = 0
for at = 1, #fields, 2 do
  if fields[at] == owner then
    token = last
  end
end
local time = redis.call('TIME')
local now, waiting = time[1] * 1000000 + time[2], 0
local waits = redis.pcall('HVALS', entries)
if waits.err then
  -- No hash stands there; any other error comes again.
  waits = string.find(waits.err, 'WRONGTYPE', 1, true) and {} or redis.call('HVALS', entries)
end
for _, entry in ipairs(waits) do
  if alive(entry, now) then
    waiting = waiting + 1
  end
end
local shown = {redis.call('PTTL', lock), waiting, token}
-- Not by unpack, which takes some thousand values at most.
for at = 1, math.min(#fields, 2 * ARGV[1]) do
  shown[at + 3] = fields[at]
end
return shown
