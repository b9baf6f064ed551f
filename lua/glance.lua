-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 most, 2 looked
-- returns {}: the key has no lock; {remaining ms, -1 without an expiry; number of waiting processes; token or 0; 1 if the lock is shared, else 0; time in µs; number of holders; field, depth, remaining ms of its own lease or -1, field, …}
-- most: the maximum number of holders to return.
-- looked: the length of the line up to which the script checks for each process whether it is alive. In a longer line
--   it counts all processes.

-- The caller knows only that the key has a hash. The script must be fast whatever the hash contains. So it reads no
-- value before it knows that the field names are those of a lock. It reads only a small hash or line completely.
local lock, line, entries = 1, 2, 3
local most, looked = tonumber(ARGV[1]), tonumber(ARGV[2])
-- include token
-- include holder
-- include entry
-- include read
-- include leases

local count = read(redis.pcall('HLEN', KEYS[lock]))
if type(count) ~= 'number' or count == 0 then
  return failed or {}
end
local shared = is_shared()
local fields, total = {}, 0
if count <= 64 then
  for _, field in ipairs(redis.call('HKEYS', KEYS[lock])) do
    if is_hold(field) then
      total = total + 1
      if total <= most then
        table.insert(fields, field)
      end
    end
  end
elseif shared then
  -- Only readers can be so many holders. The readers whose leases expire last are first in the line.
  for _, member in ipairs(redis.call('ZRANGE', KEYS[line], '(-INEXACT_FROM', '(0', 'BYSCORE', 'LIMIT', 0, most)) do
    table.insert(fields, string.sub(member, 2))
  end
  total = count - redis.call('HEXISTS', KEYS[lock], 'mode')
end
if not fields[1] then
  return {}
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local depths = redis.call('HMGET', KEYS[lock], 'mode', unpack(fields))
local leases = shared and leases_of(fields, now) or {}
local waiting = read(redis.pcall('ZCOUNT', KEYS[line], 0, '(TOMBSTONES_FROM'))
if type(waiting) ~= 'number' then
  waiting = 0
elseif waiting > 0 and waiting <= looked then
  local inboxes = redis.call('ZRANGE', KEYS[line], 0, '(TOMBSTONES_FROM', 'BYSCORE')
  waiting = 0
  for _, entry in ipairs(read(redis.pcall('HMGET', KEYS[entries], unpack(inboxes)))) do
    if entry and alive(entry, now) then
      waiting = waiting + 1
    end
  end
end
local shown = {redis.call('PTTL', KEYS[lock]), waiting, known(depths[1]) or 0, shared and 1 or 0, now, total}
for at, field in ipairs(fields) do
  local depth = depths[at + 1]
  -- A value that is not a number is not a depth, and then the hash is not a lock. A reader without a field has ended.
  if depth and is_depth(depth) then
    table.insert(shown, field)
    table.insert(shown, depth)
    table.insert(shown, leases[at] or -1)
  end
end
return failed or shown[7] and shown or {}
