-- KEYS: 1 victims (hash): the victims of all cycles that have the same least wait
-- ARGV: 1 wait, 2 life, 3… the other waits of the cycle
-- returns 1 the wait is a victim, 0 another wait of the cycle is
-- wait: the wait id. life: how long the claim of the victim is valid, in ms.
local victims = 1
local wait, life = unpack(ARGV)
-- include expire
-- include repair

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ends = repair(victims, redis.pcall('HMGET', KEYS[victims], wait, unpack(ARGV, 3))) or {}
if ends.err then
  return ends
end
for at = 1, #ends do
  -- A victim whose claim has expired has given way, or its process has died.
  if ends[at] and now < (tonumber(ends[at]) or 0) then
    return at == 1 and 1 or 0
  end
end
local left = redis.call('PTTL', KEYS[victims])
redis.call('HSET', KEYS[victims], wait, string.format('%.0f', now + life * 1000))
keep_at_least(victims, life, left)
return 1
