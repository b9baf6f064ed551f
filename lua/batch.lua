-- KEYS: for n requests 1 to n locks (hashes), n+1 to 2n their queues (zsets); then for each release entries (hash)
-- ARGV: 1 shared, 2 releases, 3 ttl, 4 id, then for each request: hold
-- returns {token, done}: each lock that was taken has this token, 0 if there is none; done has a character for each
--   hold: '1' it is done; '2' the hold is released, and the request must be sent alone to let the next ones in;
--   '0' it has changed nothing, and must be sent alone
-- shared: the number of releases of readers, which come first, with the readers of one lock as one release. releases:
--   the number of releases of exclusive holds. The other requests take free locks. The token is the time in µs.
-- ttl: the TTL in ms of the locks that are taken.
-- id: the UUID of the inbox, which gets a message when another process begins to wait while its process holds the lock;
--   '' for callers that do not wait.
-- hold: the hold id; of readers all of them, joined by commas. A hold that is released has left nothing else in the
--   store.

-- Each request is executed as if it had been sent alone: the failure of one does not affect the others.
local shared, exits, n, done = tonumber(ARGV[1]), ARGV[1] + ARGV[2], #ARGV - 4, {}

-- Mostly no process waits for any of these locks. The readers of a lock are in its queue.
local none_waits = shared < n and redis.pcall('EXISTS', unpack(KEYS, n + shared + 1, 2 * n)) == 0
local function has_no_waiter(queue)
  return none_waits or redis.pcall('ZCOUNT', KEYS[queue], '-inf', '(TOMBSTONES_FROM') == 0
end

if exits > 0 then
  -- include token
  -- include hand_off
  -- include reader_exit

  -- Ends a hold although a process waits for its lock, or something is odd. It must have left the lock when this script
  -- ends, because its program may have ended when the reply arrives.
  local function release(at, hold, is_reader)
    local depth, stored = unpack(redis.call('HMGET', KEYS[at], hold, 'mode'))
    if not depth then
      return '0'
    end
    if is_reader and redis.call('HLEN', KEYS[at]) > (stored and 2 or 1) then
      redis.call('HDEL', KEYS[at], hold)
      redis.pcall('ZREM', KEYS[n + at], 'r' .. hold)
      return '2'
    end
    if is_reader then
      redis.pcall('ZREM', KEYS[n + at], 'r' .. hold)
    end
    if hand_off(at, n + at, 2 * n + at, stored) then
      return '1'
    end
    -- The token of the next holder must be greater. If the clock has not passed this one, it must not be forgotten here.
    local time = redis.call('TIME')
    if (parse_token(stored) or 0) >= time[1] * 1000000 + time[2] then
      return '0'
    end
    redis.call('DEL', KEYS[at])
    return '2'
  end

  local function release_safely(at, hold, is_reader)
    local is_over, reply = pcall(release, at, hold, is_reader)
    done[#done + 1] = is_over and reply or '0'
  end

  for at = 1, shared do
    local holds = {}
    for hold in string.gmatch(ARGV[at + 4], '[^,]+') do
      holds[#holds + 1] = hold
    end
    local is_over, have_left = pcall(reader_exit, at, n + at, holds)
    if is_over and have_left then
      done[#done + 1] = string.rep('1', #holds)
    else
      -- Each of them by itself, because one that is not in the lock, for example, must not affect the others.
      for _, hold in ipairs(holds) do
        is_over, have_left = pcall(reader_exit, at, n + at, {hold})
        if is_over and have_left then
          done[#done + 1] = '1'
        else
          release_safely(at, hold, true)
        end
      end
    end
  end
  -- In the usual case all exclusive holds have their locks, which one command removes.
  local are_held = none_waits and exits > shared
  for at = shared + 1, exits do
    are_held = are_held and redis.pcall('HEXISTS', KEYS[at], ARGV[at + 4]) == 1
  end
  if are_held and tonumber(redis.pcall('DEL', unpack(KEYS, shared + 1, exits))) then
    done[#done + 1] = string.rep('1', exits - shared)
  else
    for at = shared + 1, exits do
      if redis.pcall('HEXISTS', KEYS[at], ARGV[at + 4]) == 1 and has_no_waiter(n + at)
        and redis.pcall('DEL', KEYS[at]) == 1 then
        done[#done + 1] = '1'
      else
        release_safely(at, ARGV[at + 4], false)
      end
    end
  end
end

if exits == n then
  return {0, table.concat(done)}
end
local time = redis.pcall('TIME')
local token = time[1] and time[1] .. ' ' .. time[2]
local written = token and ARGV[4] ~= '' and token .. ' ' .. ARGV[4] or token
-- Mostly all wanted locks are free. One that is wanted twice is looked at once more.
local taken, are_free = {}, none_waits and redis.pcall('EXISTS', unpack(KEYS, exits + 1, n)) == 0
for at = exits + 1, n do
  local name, hold, is_taken = KEYS[at], ARGV[at + 4], '0'
  local is_free = are_free and not taken[name]
    or redis.pcall('EXISTS', KEYS[at], KEYS[n + at]) == 0
    or redis.pcall('EXISTS', KEYS[at]) == 0 and has_no_waiter(n + at)
    and not redis.pcall('ZSCORE', KEYS[n + at], 'x' .. hold)
  if written and is_free then
    taken[name] = true
    if redis.pcall('HSET', KEYS[at], hold, '1', 'mode', written) == 2
      and redis.pcall('PEXPIRE', KEYS[at], ARGV[3]) == 1 then
      is_taken = '1'
    else
      -- Without an expiry the lock would be held for ever.
      redis.pcall('DEL', KEYS[at])
    end
  end
  done[#done + 1] = is_taken
end
return {token and time[1] * 1000000 + time[2] or 0, table.concat(done)}
