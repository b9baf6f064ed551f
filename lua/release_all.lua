-- KEYS: for each key 1 lock (hash), 2 line (zset): its queue
-- ARGV: for each key: hold
-- returns for each key 1 its hold is released, 0 nothing is done: the hold is gone, a caller waits, or the lock could not be read
-- hold: the id of a hold that has left nothing else in the store.
local released = {}

for at, hold in ipairs(ARGV) do
  local lock, line = KEYS[2 * at - 1], KEYS[2 * at]
  released[at] = 0
  if redis.pcall('HEXISTS', lock, hold) == 1 and redis.pcall('EXISTS', line) == 0
    and redis.pcall('DEL', lock) == 1 then
    released[at] = 1
  end
end
return released
