-- KEYS: 1 lock (hash), 2 queue (zset): the processes that wait, 3 entries (hash): what they wait for
-- ARGV: 1 hold, 2 ttl; only of a caller that waits: 3 inbox, 4 lease, 5 life
-- returns one of
--   token: the lock was free, and this hold has it for the TTL; no process waits
--   {1, token, lease in ms, time in µs}: this hold has the lock
--   {0, remaining ms or -1, time in µs}: another hold has the lock, or a process is ahead
--   {-1}: this hold has ended
-- hold: the hold id. ttl: the TTL in ms. The token is the time in µs.
-- inbox: the channel of the waiting process. It also gets a message when another process begins to wait while it holds
--   the lock. lease: the lease in ms of a lock that is handed to it. life: how long its entry in the queue is kept, in ms.

-- The usual case, kept short: the lock is free, and no process waits. Tombstones of other holds do not matter.
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0
  or redis.call('EXISTS', KEYS[1]) == 0
  and redis.pcall('ZCOUNT', KEYS[2], '-inf', '(TOMBSTONES_FROM') == 0
  and not redis.call('ZSCORE', KEYS[2], 'x' .. ARGV[1]) then
  local time = redis.call('TIME')
  local token = time[1] .. ' ' .. time[2]
  if ARGV[3] then
    token = token .. ' ' .. string.sub(ARGV[3], #'reentry:inbox:' + 1)
  end
  redis.call('HSET', KEYS[1], ARGV[1], '1', 'mode', token)
  local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if set == 1 then
    return time[1] * 1000000 + time[2]
  end
  -- Without an expiry the lock would be held for ever.
  redis.call('DEL', KEYS[1])
  return set
end

-- All other cases. A function, so that the usual case does not create those of the parts.
local function general()
  local lock, queue, entries = 1, 2, 3
  local hold, ttl, inbox, lease, life = unpack(ARGV)
  local id = inbox and string.sub(inbox, #'reentry:inbox:' + 1)
  -- include token
  -- include queue
  -- include readers

  local function acquire()
    -- A request that arrives after the end of its hold must not take the lock.
    if redis.call('ZSCORE', KEYS[queue], 'x' .. hold) then
      return {-1}
    end
    local now = server_time()
    local is_shared = remove_expired_readers(now)
    local remaining = redis.call('PTTL', KEYS[lock])
    local is_free, ahead, holder = remaining == -2, nil, nil

    if is_free then
      ahead = first_in_queue(now)
      if not ahead or ahead == inbox then
        if ahead then
          leave_queue(ahead)
        end
        take_lock(hold, ttl, now, id)
        return {1, now, tonumber(ttl), now}
      end
    else
      local depth, stored = unpack(redis.call('HMGET', KEYS[lock], hold, 'mode'))
      if depth then
        -- The caller repeats its request: a response or a message was lost. The token stays as it is, and the
        -- lease is never shortened.
        if remaining < tonumber(ttl) then
          redis.call('PEXPIRE', KEYS[lock], ttl)
          remaining = tonumber(ttl)
        end
        return {1, token_of_lock(now, id), remaining, now}
      end
      holder = holder_inbox(stored)
    end

    if inbox then
      enter_queue(inbox, hold .. ' ' .. lease .. ' ' .. id, now, life, holder)
    end
    if is_free or is_shared then
      remaining = math.max(remaining, admit(now, is_free and now) or remaining)
    end
    return {0, remaining, now}
  end

  local reply = with_repair(acquire)
  send_messages()
  return reply
end
return general()
