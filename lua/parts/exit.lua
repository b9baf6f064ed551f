-- Part: how a reader leaves a lock that no process waits for. The only hold of a lock removes the lock. If there are
-- other holds, and all of them are alive, the lock lasts as long as the latest of their leases.
-- exit(lock, line, hold), with the indexes of the two keys, returns true if the hold has left. Otherwise nothing has
-- changed. This is also true if it fails, because it cannot fail after the first write. The time is read once.
local others
local function exit(lock, line, hold)
  local own = 'r' .. hold
  local first = redis.pcall('ZRANGE', KEYS[line], 0, 1, 'WITHSCORES')
  local at = first[1] == own and 3 or 1
  local latest, score = first[at], tonumber(first[at + 1])
  if at == 3 and not latest then
    local fields = redis.call('HMGET', KEYS[lock], hold, 'mode')
    if fields[1] and fields[2] and redis.call('HLEN', KEYS[lock]) == 2 then
      redis.call('DEL', KEYS[lock], KEYS[line])
      return true
    end
  elseif score and score < 0 and score > -INEXACT_FROM then
    if not others then
      local time = redis.call('TIME')
      local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
      others = {'(-' .. now, '(TOMBSTONES_FROM', 'BYSCORE', 'LIMIT', 0, 1}
    end
    if not redis.call('ZRANGE', KEYS[line], unpack(others))[1] then
      local fields = redis.call('HMGET', KEYS[lock], hold, string.sub(latest, 2))
      if fields[1] and fields[2] then
        redis.call('HDEL', KEYS[lock], hold)
        redis.pcall('ZREM', KEYS[line], own)
        redis.pcall('PEXPIREAT', KEYS[lock], string.format('%.0f', -score))
        return true
      end
    end
  end
  return false
end
