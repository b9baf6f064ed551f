-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 how many fields to show at most, 2 if the processes that wait are to be counted
-- returns {remaining ms, -1 without an expiry, -2 free; how many processes wait, or 0; the token or 0; 1 if the lock is shared, else 0; the time in µs; field, depth, remaining ms of a lease of its own or -1, field, …}
local lock, line, entries = unpack(KEYS)
-- include token
-- include entry
-- include read

local time = redis.call('TIME')
local now, waiting = time[1] * 1000000 + time[2], 0
if ARGV[2] then
  for _, entry in ipairs(read('HVALS', entries)) do
    if alive(entry, now) then
      waiting = waiting + 1
    end
  end
end
local fields, depths = redis.call('HGETALL', lock), {}
for at = 1, #fields, 2 do
  depths[fields[at]] = fields[at + 1]
end
local readers, lasts = read('ZRANGE', line, '(-9007199254740992', '(0', 'BYSCORE', 'WITHSCORES'), {}
for at = 1, #readers, 2 do
  lasts[string.sub(readers[at], 2)] = math.max(-readers[at + 1] - math.floor(now / 1000), 0)
end
local is_shared = readers[1] and depths[string.sub(readers[1], 2)]
local token = known(depths.token) or 0
local shown = {redis.call('PTTL', lock), waiting, token, is_shared and 1 or 0, now}
for at = 1, #fields, 2 do
  local field = fields[at]
  -- Where the token stands alone, some other program has put it there, and it can be released by force.
  local is_holder = field ~= 'token' or #fields == 2
  local lease = is_shared and lasts[field] or -1
  if is_holder and #shown < 5 + 3 * ARGV[1] then
    table.insert(shown, field)
    table.insert(shown, fields[at + 1])
    table.insert(shown, lease)
  end
end
return shown
