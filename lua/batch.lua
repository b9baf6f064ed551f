-- KEYS: for each release 1 lock (hash), 2 queue (zset), 3 entries (hash), those of exclusive holds before those of
--   readers, with the readers of one lock as one release; then for each acquire 1 lock, 2 queue
-- ARGV: 1 releases, 2 shared, 3 ttl, 4 id, then for each release and acquire: hold
-- returns {token, done}: each lock that was taken has this token, 0 if there is none; done has a character for each
--   hold: '1' it is done; '2' the hold is released, and the request must be sent alone to let the next ones in;
--   '0' it has changed nothing, and must be sent alone
-- releases: the number of releases of exclusive holds. shared: the number of releases of readers. The other requests
--   take free locks. The token is the time in µs.
-- ttl: the TTL in ms of the locks that are taken.
-- id: the UUID of the inbox, if it gets a message when another process begins to wait while its process holds the lock;
--   else ''.
-- hold: the hold id; of readers all of them, joined by commas. A hold that is released has left nothing else in the
--   store.

-- Each request is executed as if it had been sent alone: the failure of one does not affect the others.
local releases, shared, done = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
local exits = releases + shared
if exits > 0 then
  -- include token
  -- include hand_off
  -- include reader_exit

  -- Ends a hold although a process waits for its lock, or something is odd. It must have left the lock when this script
  -- ends, because its program may have ended when the reply arrives.
  local function release(lock, hold, is_reader)
    local queue, entries = lock + 1, lock + 2
    local depth, stored = unpack(redis.call('HMGET', KEYS[lock], hold, 'mode'))
    if not depth then
      return '0'
    end
    if is_reader and redis.call('HLEN', KEYS[lock]) > (stored and 2 or 1) then
      redis.call('HDEL', KEYS[lock], hold)
      redis.pcall('ZREM', KEYS[queue], 'r' .. hold)
      return '2'
    end
    if is_reader then
      redis.pcall('ZREM', KEYS[queue], 'r' .. hold)
    end
    if hand_off(lock, queue, entries, stored) then
      return '1'
    end
    redis.call('DEL', KEYS[lock])
    return '2'
  end

  local function release_safely(lock, hold, is_reader)
    local is_over, reply = pcall(release, lock, hold, is_reader)
    done[#done + 1] = is_over and reply or '0'
  end

  for at = 1, releases do
    local lock, hold = 3 * at - 2, ARGV[at + 4]
    if redis.pcall('HEXISTS', KEYS[lock], hold) == 1
      and redis.pcall('ZCOUNT', KEYS[lock + 1], '-inf', '(TOMBSTONES_FROM') == 0
      and redis.pcall('DEL', KEYS[lock]) == 1 then
      done[#done + 1] = '1'
    else
      release_safely(lock, hold, false)
    end
  end
  for at = releases + 1, exits do
    local lock, holds = 3 * at - 2, {}
    for hold in string.gmatch(ARGV[at + 4], '[^,]+') do
      holds[#holds + 1] = hold
    end
    local is_over, have_left = pcall(reader_exit, lock, lock + 1, holds)
    if is_over and have_left then
      done[#done + 1] = string.rep('1', #holds)
    else
      -- Each of them by itself, because one that is not in the lock, for example, must not affect the others.
      for _, hold in ipairs(holds) do
        is_over, have_left = pcall(reader_exit, lock, lock + 1, {hold})
        if is_over and have_left then
          done[#done + 1] = '1'
        else
          release_safely(lock, hold, true)
        end
      end
    end
  end
end

if exits == #ARGV - 4 then
  return {0, table.concat(done)}
end
local time = redis.pcall('TIME')
local token = time[1] and time[1] .. ' ' .. time[2]
local written = token and ARGV[4] ~= '' and token .. ' ' .. ARGV[4] or token
for at = exits + 1, #ARGV - 4 do
  local lock, queue, hold, is_taken = exits + 2 * at - 1, exits + 2 * at, ARGV[at + 4], '0'
  local is_free = redis.pcall('EXISTS', KEYS[lock], KEYS[queue]) == 0
    or redis.pcall('EXISTS', KEYS[lock]) == 0
    and redis.pcall('ZCOUNT', KEYS[queue], '-inf', '(TOMBSTONES_FROM') == 0
    and not redis.pcall('ZSCORE', KEYS[queue], 'x' .. hold)
  if written and is_free then
    if redis.pcall('HSET', KEYS[lock], hold, '1', 'mode', written) == 2
      and redis.pcall('PEXPIRE', KEYS[lock], ARGV[3]) == 1 then
      is_taken = '1'
    else
      -- Without an expiry the lock would be held for ever.
      redis.pcall('DEL', KEYS[lock])
    end
  end
  done[#done + 1] = is_taken
end
return {token and time[1] * 1000000 + time[2] or 0, table.concat(done)}
