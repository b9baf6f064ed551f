-- KEYS: 1 the victim of a cycle (hash)
-- ARGV: 1 wait id, 2 life in ms
-- returns 1 the wait is the victim, 0 another one is
local victim = KEYS[1]
local wait, life = unpack(ARGV)

local stored = redis.pcall('HGET', victim, 'wait')
if type(stored) == 'table' then
  if not string.find(stored.err, 'WRONGTYPE', 1, true) then
    return stored
  end
  -- The key is the crate's own: what has another type there is removed.
  redis.call('DEL', victim)
  stored = false
end
if stored then
  return stored == wait and 1 or 0
end
redis.call('HSET', victim, 'wait', wait)
local expires = redis.pcall('PEXPIRE', victim, life)
if expires ~= 1 then
  redis.call('DEL', victim)
  return expires
end
return 1
