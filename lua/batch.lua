-- KEYS: for each request 1 lock (hash), 2 queue (zset), in this order: releases of exclusive holds, releases of
--   readers, acquires
-- ARGV: 1 releases, 2 readers, 3 ttl, 4 id, then for each request: hold
-- returns {token, done}: each lock that was taken has this token, 0 if there is none; done has a character for each
--   request: '1' it is done, '0' it has changed nothing, and must be sent alone
-- releases: the number of releases of exclusive holds. readers: the number of releases of holds that share their locks.
--   The other requests take free locks. The token is the time in µs.
-- ttl: the TTL in ms of the locks that are taken.
-- id: the UUID of the inbox, if it gets a message when another process begins to wait while its process holds the lock;
--   else ''.
-- hold: the hold id. The hold of a release has left nothing else in the store.

-- Each request is executed as if it had been sent alone: the failure of one does not affect the others.
local releases, readers, done = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
for at = 1, releases do
  local lock, queue = 2 * at - 1, 2 * at
  local is_released = redis.pcall('HEXISTS', KEYS[lock], ARGV[at + 4]) == 1
    and redis.pcall('ZCOUNT', KEYS[queue], '-inf', '(TOMBSTONES_FROM') == 0
    and redis.pcall('DEL', KEYS[lock]) == 1
  done[at] = is_released and '1' or '0'
end

if readers > 0 then
  -- include reader_exit
  for at = releases + 1, releases + readers do
    local is_over, has_left = pcall(reader_exit, 2 * at - 1, 2 * at, ARGV[at + 4])
    done[at] = is_over and has_left and '1' or '0'
  end
end

if releases + readers == #KEYS / 2 then
  return {0, table.concat(done)}
end
local time = redis.pcall('TIME')
local token = time[1] and time[1] .. ' ' .. time[2]
local written = token and ARGV[4] ~= '' and token .. ' ' .. ARGV[4] or token
for at = releases + readers + 1, #KEYS / 2 do
  local lock, queue = 2 * at - 1, 2 * at
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
