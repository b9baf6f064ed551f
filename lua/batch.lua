-- KEYS: for each release 1 lock (hash), 2 queue (zset), 3 entries (hash), those of exclusive holds before those of
--   readers; then for each acquire 1 lock, 2 queue
-- ARGV: 1 releases, 2 readers, 3 ttl, 4 id, then for each request: hold
-- returns {token, done}: each lock that was taken has this token, 0 if there is none; done has a character for each
--   request: '1' it is done; '2' the hold is released, and the request must be sent alone to let the next ones in;
--   '0' it has changed nothing, and must be sent alone
-- releases: the number of releases of exclusive holds. readers: the number of releases of holds that share their locks.
--   The other requests take free locks. The token is the time in µs.
-- ttl: the TTL in ms of the locks that are taken.
-- id: the UUID of the inbox, if it gets a message when another process begins to wait while its process holds the lock;
--   else ''.
-- hold: the hold id. The hold of a release has left nothing else in the store.

-- Each request is executed as if it had been sent alone: the failure of one does not affect the others.
local releases, readers, done = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
local exits = releases + readers
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

  for at = 1, exits do
    local lock, hold = 3 * at - 2, ARGV[at + 4]
    local is_over, is_done = true, false
    if at <= releases then
      is_done = redis.pcall('HEXISTS', KEYS[lock], hold) == 1
        and redis.pcall('ZCOUNT', KEYS[lock + 1], '-inf', '(TOMBSTONES_FROM') == 0
        and redis.pcall('DEL', KEYS[lock]) == 1
    else
      is_over, is_done = pcall(reader_exit, lock, lock + 1, hold)
    end
    local reply = '1'
    if not is_over or not is_done then
      is_over, reply = pcall(release, lock, hold, at > releases)
    end
    done[at] = is_over and reply or '0'
  end
end

if exits == #ARGV - 4 then
  return {0, table.concat(done)}
end
local time = redis.pcall('TIME')
local token = time[1] and time[1] .. ' ' .. time[2]
local written = token and ARGV[4] ~= '' and token .. ' ' .. ARGV[4] or token
for at = exits + 1, #ARGV - 4 do
  local lock, queue = exits + 2 * at - 1, exits + 2 * at
  done[at] = '0'
  local is_free = redis.pcall('EXISTS', KEYS[lock], KEYS[queue]) == 0
    or redis.pcall('EXISTS', KEYS[lock]) == 0
    and redis.pcall('ZCOUNT', KEYS[queue], '-inf', '(TOMBSTONES_FROM') == 0
    and not redis.pcall('ZSCORE', KEYS[queue], 'x' .. ARGV[at + 4])
  if written and is_free then
    if redis.pcall('HSET', KEYS[lock], ARGV[at + 4], '1', 'mode', written) == 2
      and redis.pcall('PEXPIRE', KEYS[lock], ARGV[3]) == 1 then
      done[at] = '1'
    else
      -- Without an expiry the lock would be held for ever.
      redis.pcall('DEL', KEYS[lock])
    end
  end
end
return {token and time[1] * 1000000 + time[2] or 0, table.concat(done)}
