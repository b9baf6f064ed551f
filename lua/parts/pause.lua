-- Part: a free lock that is left to polling programs. Needs the local entries.
-- paused(now) returns for how many more ms no process in the line gets the lock. Returns nothing if the first process
-- may have it.
local function paused(now)
  local stored = redis.call('HGET', KEYS[entries], 'pause') or ''
  local left = #stored < 17 and string.find(stored, '^%d+$') and stored - now
  if left and left > 0 and left <= LONGEST_PAUSE * 1000 then
    return math.ceil(left / 1000)
  end
end
