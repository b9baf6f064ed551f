-- KEYS: 1 lock (hash), 2 queue (zset): the processes that wait, 3 entries (hash): what they wait for
-- ARGV: 1 hold; unless the end of an exclusive hold is short: 2 ends, 3 inbox
-- returns 1 released, 0 not released
-- hold: the hold id. inbox: the channel of its process.
-- ends: how the hold ends.
--   'short': only its field can be in the store. The word is not sent: it would cost about 1 % of a pair.
--   'reader': only its field and its lease can be in the store, because it shares the lock.
--   'full', or 'reader full': a place in the queue may remain as well.
--   ' unanswered' follows 'full' if a request of the hold may still arrive, which will find a tombstone.
--   ' nested' follows if the depth of the hold may have changed: the number of its last change is removed.

-- The usual cases, kept short: the hold has the lock, and no process waits. DEL comes first: Redis allows it when
-- memory is full, and then every write after it. A failure after DEL does not mean that the release was rejected.
local ends = ARGV[2] or 'short'
if ends == 'short' then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
    and redis.pcall('ZCOUNT', KEYS[2], '-inf', '(TOMBSTONES_FROM') == 0 then
    return redis.call('DEL', KEYS[1])
  end
elseif ends == 'reader' then
  -- include reader_exit
  if reader_exit(1, 2, {ARGV[1]}) then
    return 1
  end
end

-- include token
-- Kept short as well: the lock moves to the first process in the queue. `general` handles all other cases.
if ends == 'short' or ends == 'full' then
  -- include hand_off
  local depth, stored = unpack(redis.call('HMGET', KEYS[1], ARGV[1], 'mode'))
  if depth and hand_off(1, 2, 3, stored) then
    return 1
  end
end

-- All other cases. A function, so that the usual cases do not create those of the parts.
local function general()
  local lock, queue, entries = 1, 2, 3
  local hold, inbox = ARGV[1], ARGV[3]
  local is_reader = string.find(ends, 'reader', 1, true)
  local is_unanswered = string.find(ends, ' unanswered', 1, true)
  local is_nested = string.find(ends, ' nested', 1, true)
  -- include queue
  -- include readers

  -- First the hold leaves the lock.
  local depth, stored = unpack(redis.call('HMGET', KEYS[lock], hold, 'mode'))
  if depth and is_reader then
    remove_holds({hold})
  elseif depth then
    redis.call('DEL', KEYS[lock])
  end

  -- Takes a hold that has only waited out of the place of its process.
  local function stop_waiting()
    local entry = redis.call('HGET', KEYS[entries], inbox)
    local deadline, holds, rest = string.match(entry or '', '^(%d+) (%S+)( .*)$')
    local others = {}
    for _, other in ipairs(split(holds or '')) do
      if other ~= hold then
        table.insert(others, other)
      end
    end
    if others[1] then
      redis.call('HSET', KEYS[entries], inbox, deadline .. ' ' .. table.concat(others, ',') .. rest)
    elseif holds == hold or not entry then
      -- A place whose entry has expired is removed as well. Otherwise it would remain as long as a tombstone.
      leave_queue(inbox)
    end
  end

  local function clean_up_and_admit()
    if is_reader then
      redis.call('ZREM', KEYS[queue], 'r' .. hold)
    end
    if depth and not is_unanswered and not is_nested and redis.call('EXISTS', KEYS[queue]) == 0 then
      return
    end
    local now = server_time()
    if is_unanswered then
      leave_tombstone(hold, now)
    end
    if is_nested then
      redis.call('HDEL', KEYS[entries], hold)
    end
    if inbox and not depth then
      stop_waiting()
    end
    admit_after_exit(now, math.max(now, (parse_token(stored) or 0) + 1), depth and not is_reader)
  end

  -- A hold that has left the lock is released, whatever fails after that. One that was not in it has left only with this.
  local is_done, failure = pcall(with_repair, clean_up_and_admit)
  if not is_done and not depth then
    return {err = failure.err or failure}
  end
  send_messages()
  return depth and 1 or 0
end
return general()
