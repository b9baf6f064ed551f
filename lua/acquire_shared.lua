-- KEYS: 1 lock (hash), 2 queue (zset): the processes that wait, 3 entries (hash): what they wait for
-- ARGV: 1 list, 2 ttl, 3 limit; only of readers that wait: 4 inbox, 5 lease, 6 life
-- returns one of
--   token: the lock was free, and all the holds share it for the TTL
--   {1, token, remaining ms, time in µs, hold, …}: these holds share the lock for the TTL, all if none is named; the
--     others wait
--   {0, remaining ms or -1, time in µs}: none of the holds has the lock
--   {-1}: all the holds have ended
-- list: the hold ids, joined by commas. ttl: the TTL in ms. The token is the time in µs.
-- limit: the maximum number of holders; '' without a limit.
-- inbox: the channel of the waiting process. lease: the lease in ms of a lock that is handed to it.
-- life: how long its entry in the queue is kept, in ms.

-- The usual case, kept short: the lock is free, and its queue is empty.
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local ends = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
  local fields, members = {'mode', time[1] .. ' ' .. time[2]}, {}
  for hold in string.gmatch(ARGV[1], '[^,]+') do
    table.insert(fields, hold)
    table.insert(fields, '1')
    table.insert(members, '-' .. ends)
    table.insert(members, 'r' .. hold)
  end
  redis.call('HSET', KEYS[1], unpack(fields))
  local set = redis.pcall('PEXPIREAT', KEYS[1], ends)
  if set == 1 then
    set = redis.pcall('ZADD', KEYS[2], unpack(members))
    if type(set) == 'number' then
      set = redis.pcall('PEXPIREAT', KEYS[2], ends)
    end
    if set == 1 then
      return time[1] * 1000000 + time[2]
    end
  end
  -- Without an expiry a key would remain for ever.
  redis.call('DEL', KEYS[1], KEYS[2])
  return set
end

-- All other cases. A function, so that the usual case does not create those of the parts.
local function general()
  local lock, queue, entries = 1, 2, 3
  local list, ttl, limit, inbox, lease, life = unpack(ARGV)
  -- include token
  -- include queue
  -- include readers

  -- The holds of the list without a tombstone, and the number of all. A request that arrives after the end of its hold
  -- must not enter. The tombstones are at the end of the queue, and mostly there are none.
  local function holds_not_ended()
    local holds, left = split(list), {}
    local last = redis.call('ZRANGE', KEYS[queue], -1, -1, 'WITHSCORES')[2]
    if not last or tonumber(last) < TOMBSTONES_FROM then
      return holds, #holds
    end
    for _, hold in ipairs(holds) do
      if not redis.call('ZSCORE', KEYS[queue], 'x' .. hold) then
        table.insert(left, hold)
      end
    end
    return left, #holds
  end

  local function acquire()
    local holds, count = holds_not_ended()
    if not holds[1] then
      return {-1}
    end
    local now = server_time()
    local is_shared = remove_expired_readers(now)
    local is_free = not is_shared and redis.call('EXISTS', KEYS[lock]) == 0
    local inside, outside = inside_and_outside(holds)
    if inside[1] then
      -- The caller repeats its request: a response or a message was lost.
      renew_readers(inside, ttl, now)
      is_shared = true
    end

    -- The others enter, or wait.
    local is_open, is_queue_empty = is_free or is_shared, false
    if outside[1] then
      local ahead = is_open and first_in_queue(now, is_shared)
      local is_next = is_open and (not ahead or ahead == inbox)
      if is_next and (is_free or has_room(#outside, limit)) then
        if inbox then
          leave_queue(inbox)
        end
        let_readers_in(outside, ttl, now, is_free and now)
        is_free, inside, outside, is_queue_empty = false, holds, {}, not ahead
      elseif inbox then
        local holder = not is_open and holder_inbox(redis.call('HGET', KEYS[lock], 'mode'))
        local entry = table.concat(outside, ',') .. ' ' .. lease .. ' r' .. limit
        enter_queue(inbox, entry, now, life, holder)
      end
    end

    -- The queue may begin with readers that enter now, these among them.
    if is_open and not is_queue_empty then
      admit(now, is_free and now, inbox, ttl)
      inside = outside[1] and inside_and_outside(holds) or inside
    end
    if inside[1] then
      -- Names are not sent in the usual case, because the caller would have to read them.
      local named = #inside < count and inside or {}
      return {1, token_of_lock(now), redis.call('PTTL', KEYS[lock]), now, unpack(named)}
    end
    return {0, redis.call('PTTL', KEYS[lock]), now}
  end

  local reply = with_repair(acquire)
  send_messages()
  return reply
end
return general()
