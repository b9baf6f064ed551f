-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 the token that was seen in the lock, or '' if it has none, 2… the fields that were seen in it
-- returns {field, …} what was seen and has been ended; where nothing else was in the lock, it has moved on. An error if the hash is no lock
local lock, line, entries = unpack(KEYS)
local seen = ARGV[1]
local fields = {unpack(ARGV, 2)}
-- include token
-- include holder
-- include line
-- include members

local count = redis.call('HLEN', lock)
if count == 0 then
  return {}
end
local found = redis.call('HMGET', lock, 'token', unpack(fields))
local token, inside = known(found[1]), {}
for at, field in ipairs(fields) do
  local value = found[at + 1]
  if field == 'token' then
    -- It stands alone, as no script leaves it. Nothing but its form tells it from the token of a session.
    value = count == 1 and value
    if value and not token then
      return redis.error_reply('NOLOCK the hash is no lock: `token` alone, and not as this crate writes it')
    end
  elseif not is_hold(field) or (value and not is_depth(value)) then
    return redis.error_reply('NOLOCK the hash is no lock: a lock has fields `<uuid>:<number>` with counts from 1, and `token`')
  end
  if value then
    table.insert(inside, field)
  end
end
if not inside[1] or (seen ~= '' and token ~= tonumber(seen)) then
  return {}
end
-- What was not seen stays, and keeps the lock.
if #inside + (found[1] and 1 or 0) >= count then
  redis.call('DEL', lock)
else
  redis.call('HDEL', lock, unpack(inside))
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
  elseif redis.call('HLEN', lock) == 0 then
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
-- Their process may be any, also of another program.
if inside[1] ~= 'token' then
  redis.pcall('PUBLISH', 'reentry:inbox:all', 'forced ' .. table.concat(inside, ',') .. ' ' .. lock)
end
return inside
