-- KEYS: 1 lock (hash)
-- ARGV: none
-- returns {field, field, …}: the holds in the lock, of very many only some
local lock = 1
-- include holder
-- include fields
-- include read

-- A value of another type is not a lock.
local fields = read(fields_of(lock))
local holds = {}
for at = 1, #fields, 2 do
  if is_hold(fields[at]) then
    table.insert(holds, fields[at])
  end
end
return failed or holds
