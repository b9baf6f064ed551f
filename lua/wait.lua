-- KEYS: 1 the waits of an owner (hash)
-- ARGV: 1 wait id, 2 the rest of its record, 3 life of the record in ms, 4 how late it may arrive in ms, 5 a time in µs that was read before, or 0
-- returns the time in µs: the record stands; less than 0: minus the time in µs, it has arrived too late
local waits = KEYS[1]
local wait, record, life, lateness, before = unpack(ARGV)

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local passed = now - before
-- A time ahead of the clock is that of another server, or of a clock that was set back.
if passed < 0 or passed > lateness * 1000 then
  return -now
end
record = string.format('%.0f %.0f ', now, now + life * 1000) .. record
local set = redis.pcall('HSET', waits, wait, record)
if type(set) == 'table' and string.find(set.err, 'WRONGTYPE', 1, true) then
  -- The key is the crate's own: what has another type there is removed.
  redis.call('DEL', waits)
  set = redis.pcall('HSET', waits, wait, record)
end
if type(set) == 'table' then
  return set
end
-- The hash outlives the last of its records.
local left = redis.pcall('PTTL', waits)
if type(left) == 'table' or left < tonumber(life) then
  local expires = redis.pcall('PEXPIRE', waits, life)
  if expires ~= 1 then
    redis.call('DEL', waits)
    return expires
  end
end
return now
