-- Part: the usual exit of a reader, from a lock that no process waits for. The last one removes the lock. If others
-- stay, and all of them are alive, the lock lasts as long as the latest of their leases.

-- The arguments of ZRANGE for what prevents it: a reader whose lease has ended, or a process that waits. The time is
-- read once.
local in_the_way

-- The two keys are given by their indexes. Returns true if the hold has left. Otherwise nothing has changed, also if it
-- fails, because it cannot fail after its first write.
local function reader_exit(lock, queue, hold)
  local own = 'r' .. hold
  local first = redis.pcall('ZRANGE', KEYS[queue], 0, 1, 'WITHSCORES')
  local at = first[1] == own and 3 or 1
  local latest, score = first[at], tonumber(first[at + 1])
  if at == 3 and not latest then
    local fields = redis.call('HMGET', KEYS[lock], hold, 'mode')
    if fields[1] and fields[2] and redis.call('HLEN', KEYS[lock]) == 2 then
      redis.call('DEL', KEYS[lock], KEYS[queue])
      return true
    end
  elseif score and score < 0 and score > -INEXACT_FROM then
    if not in_the_way then
      local time = redis.call('TIME')
      local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
      in_the_way = {'(-' .. now, '(TOMBSTONES_FROM', 'BYSCORE', 'LIMIT', 0, 1}
    end
    if not redis.call('ZRANGE', KEYS[queue], unpack(in_the_way))[1] then
      local fields = redis.call('HMGET', KEYS[lock], hold, string.sub(latest, 2))
      if fields[1] and fields[2] then
        redis.call('HDEL', KEYS[lock], hold)
        redis.pcall('ZREM', KEYS[queue], own)
        redis.pcall('PEXPIREAT', KEYS[lock], string.format('%.0f', -score))
        return true
      end
    end
  end
  return false
end
