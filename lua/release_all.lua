-- KEYS: for each key its lock (hash) and its line (zset)
-- ARGV: for each key a hold id of which nothing else can be there
-- returns for each key 1 its hold is released; 0 nothing is done: it is gone, a caller waits, or it could not be read
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
