-- KEYS: 1 waits (hash): the waits of an owner
-- ARGV: 1 hold
-- returns {time in µs; wait id, its record, wait id, its record, …}: the waits that the hold encloses, of very many
--   only some
-- hold: the hold id.
local waits, hold = 1, ARGV[1]
-- include fields
-- include read

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- A value of another type has no waits.
local records = read(fields_of(waits))
local seen = {now}
for at = 1, #records, 2 do
  local wait, record = records[at], records[at + 1]
  local deadline, words = string.match(record, '^%d+ (%d+) ([^\n]*)\n')
  deadline = deadline and #deadline < 17 and tonumber(deadline)
  if not deadline or deadline <= now then
    -- The process of this wait has died, or could not remove the record.
    redis.pcall('HDEL', KEYS[waits], wait)
  elseif string.find(' ' .. words .. ' ', ' ' .. hold .. ' ', 1, true) then
    table.insert(seen, wait)
    table.insert(seen, record)
  end
end
return failed or seen
