-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 how many holders to show at most, 2 of how many processes in the line to find out whether they are alive
-- returns {} no lock stands there, or {remaining ms, -1 without an expiry; how many processes wait; the token or 0; 1 if the lock is shared, else 0; the time in µs; how many holders there are; field, depth, remaining ms of a lease of its own or -1, field, …}

-- It is called for keys of which only the type is known, and must not take long whatever stands there: no value is read
-- before the names of the fields are those of a lock, and no hash or line is read as a whole unless it is small.
local lock, line, entries = unpack(KEYS)
local most, looked = tonumber(ARGV[1]), tonumber(ARGV[2])
-- include token
-- include holder
-- include entry
-- include read

local count = read('HLEN', lock)
if type(count) ~= 'number' or count == 0 then
  return {}
end
local first = read('ZRANGE', line, '(-9007199254740992', '(0', 'BYSCORE', 'LIMIT', 0, 1)[1]
local is_shared = first and redis.call('HEXISTS', lock, string.sub(first, 2)) == 1
local fields, total = {}, 0
if count <= 64 then
  for _, field in ipairs(redis.call('HKEYS', lock)) do
    if is_hold(field) then
      total = total + 1
      if total <= most then
        table.insert(fields, field)
      end
    end
  end
elseif is_shared then
  -- So many are readers, and those whose leases end last stand first.
  for _, member in ipairs(redis.call('ZRANGE', line, '(-9007199254740992', '(0', 'BYSCORE', 'LIMIT', 0, most)) do
    table.insert(fields, string.sub(member, 2))
  end
  total = count - redis.call('HEXISTS', lock, 'token')
end
if not fields[1] then
  return {}
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local depths = redis.call('HMGET', lock, 'token', unpack(fields))
local leases = {}
if is_shared then
  local members = {}
  for at, field in ipairs(fields) do
    members[at] = 'r' .. field
  end
  leases = redis.call('ZMSCORE', line, unpack(members))
end
local waiting = read('ZCOUNT', line, 0, '(4503599627370496')
if type(waiting) ~= 'number' then
  waiting = 0
elseif waiting > 0 and waiting <= looked then
  local inboxes = redis.call('ZRANGE', line, 0, '(4503599627370496', 'BYSCORE')
  waiting = 0
  for _, entry in ipairs(read('HMGET', entries, unpack(inboxes))) do
    if entry and alive(entry, now) then
      waiting = waiting + 1
    end
  end
end
local shown = {redis.call('PTTL', lock), waiting, known(depths[1]) or 0, is_shared and 1 or 0, now, total}
for at, field in ipairs(fields) do
  local depth = depths[at + 1]
  -- What is no number is no depth, and so the hash is no lock; a reader whose field is gone has ended.
  if depth and is_depth(depth) then
    local ends = leases[at] and tonumber(leases[at])
    table.insert(shown, field)
    table.insert(shown, depth)
    table.insert(shown, ends and ends < 0 and math.max(-ends - math.floor(now / 1000), 0) or -1)
  end
end
return shown[7] and shown or {}
