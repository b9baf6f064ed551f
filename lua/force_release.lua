-- KEYS: 1 lock (hash), 2 queue (zset): the processes that wait, 3 entries (hash): what they wait for
-- ARGV: 1 seen, 2… fields
-- returns {field, …}: the seen fields that this script has removed; if nothing else was in the lock, the next
--   waiter has it. An error if the hash is not a lock
-- seen: the token that was seen in the lock, or '' if it had none. fields: the fields that were seen in the lock.
local lock, queue, entries = 1, 2, 3
local seen = ARGV[1]
local fields = {unpack(ARGV, 2)}
-- include token
-- include holder
-- include queue
-- include readers

local count = redis.call('HLEN', KEYS[lock])
if count == 0 then
  return {}
end
local found = redis.call('HMGET', KEYS[lock], 'mode', unpack(fields))
local token, inside = parse_token(found[1]), {}
for at, field in ipairs(fields) do
  local value = found[at + 1]
  if field == 'mode' then
    -- `mode` is the only field: no script leaves a lock like this. Only its form distinguishes it from the field of
    -- another program, for example the token of a session.
    value = count == 1 and value
    if value and not token then
      return redis.error_reply('NOLOCK the hash is no lock: `mode` alone, and not as this crate writes it')
    end
  elseif not is_hold(field) or (value and (#value > 19 or not string.find(value, '^[1-9]%d*$'))) then
    local form = 'a lock has fields `<uuid>:<number>` with counts from 1, and `mode`'
    return redis.error_reply('NOLOCK the hash is no lock: ' .. form)
  end
  if value then
    table.insert(inside, field)
  end
end
if not inside[1] or (seen ~= '' and token ~= tonumber(seen)) then
  return {}
end
-- A field that was not seen remains, and keeps the lock held.
if #inside + (found[1] and 1 or 0) >= count then
  redis.call('DEL', KEYS[lock])
else
  redis.call('HDEL', KEYS[lock], unpack(inside))
end

local function clean_up_and_admit()
  local now = server_time()
  for _, hold in ipairs(inside) do
    redis.call('ZREM', KEYS[queue], 'r' .. hold)
    redis.call('HDEL', KEYS[entries], hold)
  end
  admit_after_exit(now, math.max(now, (token or 0) + 1))
end
-- The holds have left the lock, so a failure from here on is not an error of the call.
pcall(with_repair, clean_up_and_admit)
send_messages()
-- The holds may belong to any process, so every process gets the message.
if inside[1] ~= 'mode' then
  local name = KEYS[lock]
  redis.pcall('PUBLISH', 'reentry:inbox:all', 'forced ' .. table.concat(inside, ',') .. ' ' .. name)
end
return inside
