-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 the token that was seen in the lock, or '' if it has none, 2… the fields that were seen in it
-- returns 1 what was seen was ended, and the lock moved on if nothing else is in it, 0 nothing of what was seen is there
local lock, line, entries = unpack(KEYS)
local seen = ARGV[1]
local fields = {unpack(ARGV, 2)}
-- include token
-- include line
-- include members

local found = redis.call('HMGET', lock, 'token', unpack(fields))
local token, inside = known(found[1]), {}
for at, field in ipairs(fields) do
  if found[at + 1] then
    table.insert(inside, field)
  end
end
if not inside[1] or (seen ~= '' and token ~= tonumber(seen)) then
  return 0
end
local done, is_shared = pcall(latest)
if done and is_shared then
  redis.call('HDEL', lock, unpack(inside))
  close()
else
  redis.call('DEL', lock)
end

local function move()
  local now = clock()
  for _, hold in ipairs(inside) do
    redis.call('ZREM', line, 'r' .. hold)
    redis.call('HDEL', entries, hold)
  end
  if tidy(now) then
    settle()
    admit(now)
  else
    admit(now, true, math.max(now, (token or 0) + 1))
  end
end
-- They are out of the lock now, whatever becomes of it.
if not pcall(move) then
  -- include mend
  messages = {}
  pcall(move)
end
tell()
-- Their process may be any; what does not look like a hold is that of another program.
local forced = {}
for _, hold in ipairs(inside) do
  if string.find(hold, '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$') then
    table.insert(forced, hold)
  end
end
if forced[1] then
  redis.pcall('PUBLISH', 'reentry:inbox:all', 'forced ' .. table.concat(forced, ',') .. ' ' .. lock)
end
return 1
