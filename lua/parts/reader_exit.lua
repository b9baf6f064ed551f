-- Part: the usual exit of readers, from a lock that no process waits for. The last ones remove the lock. If others
-- stay, and all of them are alive, the lock lasts as long as the latest of their leases.

-- The arguments of ZRANGE for what prevents it: a reader whose lease has ended, or a process that waits. The time is
-- read once.
local in_the_way

-- The two keys are given by their indexes. Returns true if these holds, which are different ones, have left. Otherwise
-- nothing has changed, also if it fails, because it cannot fail after its first write.
local function reader_exit(lock, queue, holds)
  local members, leaves = {}, {}
  for at, hold in ipairs(holds) do
    members[at] = 'r' .. hold
    leaves[members[at]] = true
  end
  -- Returns whether the holds and one more field are in the lock.
  local function are_in_the_lock(field)
    for _, depth in ipairs(redis.call('HMGET', KEYS[lock], field, unpack(holds))) do
      if not depth then
        return false
      end
    end
    return true
  end

  -- Of the readers that stay, the one whose lease ends last: the first that does not leave. Mostly it is the first of
  -- all, and then no other is read, because a score is expensive to write.
  local first, at = redis.pcall('ZRANGE', KEYS[queue], 0, 0, 'WITHSCORES'), 1
  if leaves[first[1]] then
    first = redis.pcall('ZRANGE', KEYS[queue], 0, #holds, 'WITHSCORES')
    while leaves[first[at]] do
      at = at + 2
    end
  end
  local latest, score = first[at], tonumber(first[at + 1])
  if not latest and at == 2 * #holds + 1 then
    if are_in_the_lock('mode') and redis.call('HLEN', KEYS[lock]) == #holds + 1 then
      redis.call('DEL', KEYS[lock], KEYS[queue])
      return true
    end
  elseif score and score < 0 and score > -INEXACT_FROM then
    if not in_the_way then
      local time = redis.call('TIME')
      local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
      in_the_way = {'(-' .. now, '(TOMBSTONES_FROM', 'BYSCORE', 'LIMIT', 0, 1}
    end
    if not redis.call('ZRANGE', KEYS[queue], unpack(in_the_way))[1]
      and are_in_the_lock(string.sub(latest, 2)) then
      redis.call('HDEL', KEYS[lock], unpack(holds))
      redis.pcall('ZREM', KEYS[queue], unpack(members))
      redis.pcall('PEXPIREAT', KEYS[lock], string.format('%.0f', -score))
      return true
    end
  end
  return false
end
