-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 most; only to count the waiting processes: 2 counts
-- returns {remaining ms, -1 without an expiry, -2 free; number of waiting processes or 0; token or 0; 1 if the lock is shared, else 0; time in µs; field, depth, remaining ms of its own lease or -1, field, …}
-- most: the maximum number of fields to return. counts: any value; the script counts only live processes.
local lock, line, entries = 1, 2, 3
local most, counts = unpack(ARGV)
-- include token
-- include entry
-- include read

local time = redis.call('TIME')
local now, waiting = time[1] * 1000000 + time[2], 0
if counts then
  for _, entry in ipairs(read(redis.pcall('HVALS', KEYS[entries]))) do
    if alive(entry, now) then
      waiting = waiting + 1
    end
  end
end
local fields, depths = redis.call('HGETALL', KEYS[lock]), {}
for at = 1, #fields, 2 do
  depths[fields[at]] = fields[at + 1]
end
local readers, lasts = read(redis.pcall('ZRANGE', KEYS[line], '(-INEXACT_FROM', '(0', 'BYSCORE', 'WITHSCORES')), {}
for at = 1, #readers, 2 do
  lasts[string.sub(readers[at], 2)] = math.max(-readers[at + 1] - math.floor(now / 1000), 0)
end
local is_shared = readers[1] and depths[string.sub(readers[1], 2)]
local token = known(depths.mode) or 0
local shown = {redis.call('PTTL', KEYS[lock]), waiting, token, is_shared and 1 or 0, now}
for at = 1, #fields, 2 do
  local field = fields[at]
  -- If `mode` is the only field, another program has written it, and it can be released by force.
  local is_holder = field ~= 'mode' or #fields == 2
  local lease = is_shared and lasts[field] or -1
  if is_holder and #shown < 5 + 3 * most then
    table.insert(shown, field)
    table.insert(shown, fields[at + 1])
    table.insert(shown, lease)
  end
end
return failed or shown
