-- KEYS: 1 the lock (hash), 2 the entries of its line (hash)
-- ARGV: 1 how many fields to show at most
-- returns {remaining ms, -1 without an expiry, -2 free; how many processes wait; the token or 0; field, depth, field, depth, …}
local lock, entries = unpack(KEYS)
-- include token
-- include entry

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
local fields = redis.call('HGETALL', lock)
local shown = {redis.call('PTTL', lock), waiting, 0}
for at = 1, #fields, 2 do
  local is_token = fields[at] == 'token'
  if is_token then
    shown[3] = known(fields[at + 1]) or 0
  end
  -- Where it stands alone, some other program has put it there, and it can be released by force.
  if (not is_token or #fields == 2) and #shown < 3 + 2 * ARGV[1] then
    table.insert(shown, fields[at])
    table.insert(shown, fields[at + 1])
  end
end
return shown
