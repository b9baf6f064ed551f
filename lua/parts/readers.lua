-- Part: the readers in a lock, and who enters next. Needs the parts token and queue.
--
-- A lock is shared if the reader whose lease ends last is in it. Otherwise the readers in the queue are remains of an
-- earlier lock at this key. The lock expires with the last lease.
local function in_millis(micros)
  return string.format('%.0f', math.floor(micros / 1000))
end

local function split(list)
  local holds = {}
  for hold in string.gmatch(list, '[^,]+') do
    table.insert(holds, hold)
  end
  return holds
end

-- Returns the reader whose lease ends last, and that end in ms; nothing unless the lock is shared. No clock gives an
-- end of 2^53 or more. The first of the queue is given if it is known.
local function last_reader(member, score)
  if not member then
    member, score = unpack(redis.call('ZRANGE', KEYS[queue], 0, 0, 'WITHSCORES'))
  end
  if member and tonumber(score) <= -INEXACT_FROM then
    redis.call('ZREMRANGEBYSCORE', KEYS[queue], '-inf', -INEXACT_FROM)
    member, score = unpack(redis.call('ZRANGE', KEYS[queue], 0, 0, 'WITHSCORES'))
  end
  local hold = member and tonumber(score) < 0 and string.sub(member, 2)
  if hold and redis.call('HEXISTS', KEYS[lock], hold) == 1 then
    return hold, string.format('%.0f', -score)
  end
end

-- Returns the holds that are in the lock, and the others.
local function inside_and_outside(holds)
  local inside, outside = {}, {}
  for at, depth in ipairs(redis.call('HMGET', KEYS[lock], unpack(holds))) do
    table.insert(depth and inside or outside, holds[at])
  end
  return inside, outside
end

local function holder_count()
  return redis.call('HLEN', KEYS[lock]) - redis.call('HEXISTS', KEYS[lock], 'mode')
end

-- Removes holds that are in the lock, and the lock with its last hold. One command removes both, because no process
-- would release a lock in which only the token is left.
local function remove_holds(inside)
  if inside[1] and holder_count() <= #inside then
    redis.call('DEL', KEYS[lock])
  elseif inside[1] then
    redis.call('HDEL', KEYS[lock], unpack(inside))
  end
end

-- Removes the readers whose leases have ended. A later request removes those that are too many for one. Returns whether
-- the lock is shared.
local function remove_expired_readers(now)
  local member, score = unpack(redis.call('ZRANGE', KEYS[queue], 0, 0, 'WITHSCORES'))
  if not score or tonumber(score) >= 0 then
    return false
  end
  local some = {'BYSCORE', 'LIMIT', 0, MAX_FIELDS_READ}
  local expired = redis.call('ZRANGE', KEYS[queue], '(-' .. in_millis(now), '(0', unpack(some))
  if expired[1] then
    local holds = {}
    for at, member in ipairs(expired) do
      holds[at] = string.sub(member, 2)
    end
    remove_holds((inside_and_outside(holds)))
    redis.call('ZREM', KEYS[queue], unpack(expired))
    redis.call('HDEL', KEYS[entries], unpack(holds))
    member = nil
  end
  return last_reader(member, score) ~= nil
end

-- Gives each of these readers a lease from now on, which is never shorter than before. The lock lasts as long as the
-- leases.
local function renew_readers(holds, lease, now)
  local ends = in_millis(now + lease * 1000)
  if redis.call('PTTL', KEYS[lock]) < tonumber(lease) then
    redis.call('PEXPIREAT', KEYS[lock], ends)
  end
  local members = {'LT'}
  for _, hold in ipairs(holds) do
    table.insert(members, '-' .. ends)
    table.insert(members, 'r' .. hold)
  end
  local left = redis.call('PTTL', KEYS[queue])
  redis.call('ZADD', KEYS[queue], unpack(members))
  keep_at_least(queue, lease, left)
end

-- Lets readers into a lock. A free lock gets the token; of a shared one there is none.
local function let_readers_in(holds, lease, now, token)
  local fields = {}
  for _, hold in ipairs(holds) do
    table.insert(fields, hold)
    table.insert(fields, '1')
  end
  if token then
    table.insert(fields, 'mode')
    table.insert(fields, format_token(token))
  end
  redis.call('HSET', KEYS[lock], unpack(fields))
  if token then
    set_expiry(lock, lease)
  end
  local is_kept, failure = pcall(renew_readers, holds, lease, now)
  if not is_kept then
    -- Without a lease of its own, a reader would stay in the lock for as long as others renew theirs.
    remove_holds(holds)
    for _, hold in ipairs(holds) do
      redis.pcall('ZREM', KEYS[queue], 'r' .. hold)
    end
    error(failure, 0)
  end
end

-- Returns whether so many more readers are within the limit of a shared lock; '' is no limit.
local function has_room(count, limit)
  local most = tonumber(limit)
  return not most or holder_count() + count <= most
end

-- Returns the token of a lock that is held. One that cannot be read is replaced.
local function token_of_lock(now, id)
  local token = parse_token(redis.call('HGET', KEYS[lock], 'mode'))
  if not token then
    token = now
    redis.call('HSET', KEYS[lock], 'mode', format_token(token, id))
  end
  return token
end

-- Makes a shared lock expire with the last lease of its readers.
local function reset_expiry()
  local reader, ends = last_reader()
  if reader then
    redis.call('PEXPIREAT', KEYS[lock], ends)
  end
end

-- Gives the lock to the first in the queue: to all readers at its head, or to one writer if the lock is free. `free` is
-- the token for a free lock; of a shared lock there is none. The readers of the inbox `own` get the lease `ttl` and no
-- message. Returns the longest lease that was given.
local function admit(now, free, own, ttl)
  local longest
  while true do
    local inbox, waiter = first_in_queue(now, not free)
    local readers = waiter and waiter.limit and split(waiter.holds)
    if not waiter or not free and not (readers and has_room(#readers, waiter.limit)) then
      return longest
    end
    leave_queue(inbox)
    local lease, token = waiter.lease, free
    if readers then
      lease = inbox == own and ttl or lease
      let_readers_in(readers, lease, now, free)
      token = free or token_of_lock(now)
    else
      take_lock(waiter.holds, lease, free, waiter.id)
    end
    if inbox ~= own then
      notify(inbox, waiter.holds .. string.format(' %.0f %.0f ', token, now) .. lease .. ' ')
    end
    longest = math.max(longest or 0, tonumber(lease))
    if not readers then
      return longest
    end
    free = nil
  end
end

-- Lets the next ones in after some holds have left. A lock that is free now gets this token. `is_free` is true if that is
-- known.
local function admit_after_exit(now, token, is_free)
  if remove_expired_readers(now) then
    reset_expiry()
    admit(now)
  elseif is_free or redis.call('EXISTS', KEYS[lock]) == 0 then
    admit(now, token)
  end
end
