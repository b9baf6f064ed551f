-- KEYS: 1 lock (hash)
-- ARGV: none
-- returns {field, field, …}: the holds in the lock
local lock = 1
-- include read

-- A value of another type is not a lock.
local fields = read(redis.pcall('HGETALL', KEYS[lock]))
local holds = {}
for at = 1, #fields, 2 do
  if fields[at] ~= 'mode' then
    table.insert(holds, fields[at])
  end
end
return failed or holds
