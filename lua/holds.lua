-- KEYS: 1 lock (hash)
-- ARGV: none
-- returns {field, field, …}: the holds in the lock
local lock = 1

local fields = redis.pcall('HGETALL', KEYS[lock])
if fields.err then
  -- A value of another type is no lock. Any other error is raised again.
  fields = string.find(fields.err, 'WRONGTYPE', 1, true) and {} or redis.call('HGETALL', KEYS[lock])
end
local holds = {}
for at = 1, #fields, 2 do
  if fields[at] ~= 'token' then
    table.insert(holds, fields[at])
  end
end
return holds
