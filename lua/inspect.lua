-- KEYS: 1 lock (hash), 2 queue (zset): the processes that wait, 3 entries (hash): what they wait for
-- ARGV: 1 most; only to count the waiting processes: 2 counts
-- returns {remaining ms, -1 without an expiry, -2 free; number of waiting processes or 0; token or 0; 1 if the lock
--   is shared, else 0; time in µs; field, depth, remaining ms of its own lease or -1, field, …}
-- most: the maximum number of fields to return. counts: any value; the script counts only live processes, and of very
--   many only some.
local lock, queue, entries = 1, 2, 3
local most, counts = unpack(ARGV)
-- include token
-- include entry
-- include fields
-- include read

local time = redis.call('TIME')
local now, waiting = time[1] * 1000000 + time[2], 0
if counts then
  local found = read(fields_of(entries))
  for at = 2, #found, 2 do
    if live_entry(found[at], now) then
      waiting = waiting + 1
    end
  end
end
local found = fields_of(lock)
if found.err then
  return found
end
local latest = read(redis.pcall('ZRANGE', KEYS[queue], '(-INEXACT_FROM', '(0', 'BYSCORE', 'LIMIT', 0, 1))[1]
local shared = latest and redis.call('HEXISTS', KEYS[lock], string.sub(latest, 2)) == 1
local token = parse_token(redis.call('HGET', KEYS[lock], 'mode')) or 0
local shown = {redis.call('PTTL', KEYS[lock]), waiting, token, shared and 1 or 0, now}
for at = 1, #found, 2 do
  -- If `mode` is the only field, another program has written it, and it can be released by force.
  if #shown < 5 + 3 * most and (found[at] ~= 'mode' or #found == 2) then
    local ends = shared and tonumber(redis.call('ZSCORE', KEYS[queue], 'r' .. found[at]) or 0) or 0
    local is_lease = ends < 0 and ends > -INEXACT_FROM
    table.insert(shown, found[at])
    table.insert(shown, found[at + 1])
    table.insert(shown, is_lease and math.max(-ends - math.floor(now / 1000), 0) or -1)
  end
end
return failed or shown
