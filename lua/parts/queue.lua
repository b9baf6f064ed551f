-- Part: the queue of a lock, and how the lock moves. Needs the part token, and the locals lock, queue and entries, the
-- indexes of the keys. Each command names its key as KEYS[…], as some services require.
--
-- The queue is a zset. Its members are, by score:
--   below 0: the readers inside, r<hold> -> minus the end of the lease in ms
--   from 1: the processes that wait, inbox -> order
--   from TOMBSTONES_FROM (2^52): tombstones, x<hold> -> TOMBSTONES_FROM + the end of the tombstone in ms
-- The entries are a hash: inbox -> what the process waits for; hold -> the number of its last depth change.
-- Each of the two keys expires together with the last thing in it, and not before.
-- include entry
-- include expire
-- include repair
local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function leave_queue(inbox)
  redis.call('ZREM', KEYS[queue], inbox)
  redis.call('HDEL', KEYS[entries], inbox)
end

-- Returns the first live process and what it waits for. Removes the dead ones before it, and the readers of a lock that
-- is gone. `is_shared` is true if it is known that there are readers, and that they are in the lock.
local function first_in_queue(now, is_shared)
  while true do
    local inbox, order
    if not is_shared then
      inbox, order = unpack(redis.call('ZRANGE', KEYS[queue], 0, 0, 'WITHSCORES'))
    end
    if is_shared or inbox and tonumber(order) < 0 then
      if not is_shared and redis.call('EXISTS', KEYS[lock]) == 0 then
        redis.call('ZREMRANGEBYSCORE', KEYS[queue], '-inf', '(0')
      end
      local first = {'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES'}
      inbox, order = unpack(redis.call('ZRANGE', KEYS[queue], 0, '(TOMBSTONES_FROM', unpack(first)))
    end
    if not inbox or tonumber(order) >= TOMBSTONES_FROM then
      return
    end
    local holds, lease, id, limit = live_entry(redis.call('HGET', KEYS[entries], inbox), now)
    if holds then
      return inbox, {holds = holds, lease = lease, id = id, limit = limit}
    end
    leave_queue(inbox)
  end
end

-- Messages are sent after all writes, because a script must not fail once it has sent a message.
local messages = {}
local function notify(inbox, message)
  table.insert(messages, inbox)
  local name = KEYS[lock]
  table.insert(messages, message .. name)
end

local function send_messages()
  for at = 1, #messages, 2 do
    redis.pcall('PUBLISH', messages[at], messages[at + 1])
  end
end

-- Enters the queue at its end, or keeps the place of the inbox. `entry` is what the process waits for, without the
-- deadline. The inbox of the holder, if there is one, gets a message about the first other process that enters.
local function enter_queue(inbox, entry, now, life, holder)
  local order, left = redis.call('ZSCORE', KEYS[queue], inbox), redis.call('PTTL', KEYS[queue])
  if not order then
    local latest = {'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES'}
    local last = redis.call('ZRANGE', KEYS[queue], '(TOMBSTONES_FROM', 0, unpack(latest))
    redis.call('ZADD', KEYS[queue], (last[2] or 0) + 1, inbox)
    if holder and holder ~= inbox and (not last[1] or last[1] == holder) then
      notify(holder, 'contended ')
    end
  end
  keep_at_least(queue, life, left)
  left = redis.call('PTTL', KEYS[entries])
  local deadline = string.format('%.0f ', now + life * 1000)
  redis.call('HSET', KEYS[entries], inbox, deadline .. entry)
  keep_at_least(entries, life, left)
end

-- Leaves a tombstone, because of which a late request of this hold is rejected. The first command removes old ones: it
-- needs no memory, so Redis allows the other writes when memory is full.
local function leave_tombstone(hold, now)
  local at = TOMBSTONES_FROM + math.floor(now / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[queue], TOMBSTONES_FROM, '(' .. string.format('%.0f', at))
  local left = redis.call('PTTL', KEYS[queue])
  redis.call('ZADD', KEYS[queue], at + TOMBSTONE_LIFE, 'x' .. hold)
  keep_at_least(queue, TOMBSTONE_LIFE, left)
end

-- Gives a free lock to one hold.
local function take_lock(hold, lease, token, id)
  redis.call('HSET', KEYS[lock], hold, '1', 'mode', format_token(token, id))
  set_expiry(lock, lease)
end

-- Does the work. If it fails, removes keys of another type, and does it once more.
local function with_repair(work)
  local is_done, reply = pcall(work)
  if not is_done then
    repair(queue, redis.pcall('ZSCORE', KEYS[queue], ''))
    repair(entries, redis.pcall('HGET', KEYS[entries], ''))
    messages = {}
    reply = work()
  end
  return reply
end
