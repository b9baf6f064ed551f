-- KEYS: 1 the lock (hash)
-- ARGV: none
-- returns {field, field, …}
local fields = redis.pcall('HGETALL', KEYS[1])
if fields.err then
  -- No lock stands there; any other error comes again.
  fields = string.find(fields.err, 'WRONGTYPE', 1, true) and {} or redis.call('HGETALL', KEYS[1])
end
local holds = {}
for at = 1, #fields, 2 do
  if fields[at] ~= 'token' then
    table.insert(holds, fields[at])
  end
end
return holds
