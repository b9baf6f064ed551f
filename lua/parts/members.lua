-- Part: the readers in a lock, and which waiters enter. Needs the parts token and line. A lock is shared if the reader
-- whose lease expires last is in it. Otherwise the readers in the line are remains of an earlier lock at this key. The
-- lock expires with the last lease.
local function millis(micros)
  return string.format('%.0f', math.floor(micros / 1000))
end

-- Returns the hold whose lease expires last, and the end of that lease in ms. Returns nothing unless the lock is
-- shared. No clock gives an end of 2^53 or more.
local function latest()
  local member, score = unpack(redis.call('ZRANGE', KEYS[line], 0, 0, 'WITHSCORES'))
  if member and tonumber(score) <= -INEXACT_FROM then
    redis.call('ZREMRANGEBYSCORE', KEYS[line], '-inf', -INEXACT_FROM)
    member, score = unpack(redis.call('ZRANGE', KEYS[line], 0, 0, 'WITHSCORES'))
  end
  local hold = member and tonumber(score) < 0 and string.sub(member, 2)
  if hold and redis.call('HEXISTS', KEYS[lock], hold) == 1 then
    return hold, string.format('%.0f', -score)
  end
end

-- Returns the holds that are in the lock, and the holds that are not.
local function within(holds)
  local inside, outside = {}, {}
  for at, depth in ipairs(redis.call('HMGET', KEYS[lock], unpack(holds))) do
    table.insert(depth and inside or outside, holds[at])
  end
  return inside, outside
end

-- Removes these holds, which are in the lock, and the lock with its last hold. One command removes both, because no
-- process would release a lock in which only the token is left.
local function remove(inside)
  local others = redis.call('HLEN', KEYS[lock]) - redis.call('HEXISTS', KEYS[lock], 'mode') - #inside
  if others <= 0 then
    redis.call('DEL', KEYS[lock])
  elseif inside[1] then
    redis.call('HDEL', KEYS[lock], unpack(inside))
  end
end

-- Removes readers whose leases have expired. A later request removes those that are too many for one. Returns whether
-- the lock is shared.
local function tidy(now)
  local score = redis.call('ZRANGE', KEYS[line], 0, 0, 'WITHSCORES')[2]
  if not score or tonumber(score) >= 0 then
    return false
  end
  local dead = redis.call('ZRANGE', KEYS[line], '(-' .. millis(now), '(0', 'BYSCORE', 'LIMIT', 0, MOST_FIELDS)
  if dead[1] then
    local holds = {}
    for at, member in ipairs(dead) do
      holds[at] = string.sub(member, 2)
    end
    remove((within(holds)))
    redis.call('ZREM', KEYS[line], unpack(dead))
    redis.call('HDEL', KEYS[entries], unpack(holds))
  end
  return latest() ~= nil
end

-- Gives each of these readers a lease from now on. It never shortens a lease. The lock lasts at least as long as the
-- leases.
local function keep(holds, lease, now)
  local lasts = millis(now + lease * 1000)
  if redis.call('PTTL', KEYS[lock]) < tonumber(lease) then
    redis.call('PEXPIREAT', KEYS[lock], lasts)
  end
  local members = {'LT'}
  for _, hold in ipairs(holds) do
    table.insert(members, '-' .. lasts)
    table.insert(members, 'r' .. hold)
  end
  local left = redis.call('PTTL', KEYS[line])
  redis.call('ZADD', KEYS[line], unpack(members))
  outlive(line, lease, left)
end

-- Lets readers enter a lock that is shared or free. The token is given only for a free lock, and is stored.
local function enter(holds, lease, now, token)
  local fields = {}
  for _, hold in ipairs(holds) do
    table.insert(fields, hold)
    table.insert(fields, '1')
  end
  if token then
    table.insert(fields, 'mode')
    table.insert(fields, written(token))
  end
  redis.call('HSET', KEYS[lock], unpack(fields))
  if token then
    expire(lock, lease)
  end
  local is_kept, failure = pcall(keep, holds, lease, now)
  if not is_kept then
    -- Without a lease of its own, a reader would stay in the lock for as long as others renew theirs.
    remove(holds)
    for _, hold in ipairs(holds) do
      redis.pcall('ZREM', KEYS[line], 'r' .. hold)
    end
    error(failure, 0)
  end
end

-- Returns whether `count` more readers fit into a shared lock. A limit of '' means that there is no limit.
local function fits(count, limit)
  local most = tonumber(limit)
  return not most or redis.call('HLEN', KEYS[lock]) - redis.call('HEXISTS', KEYS[lock], 'mode') + count <= most
end

-- Returns the token of a lock that is held. A token that cannot be read is replaced.
local function shown(now, id)
  local token = known(redis.call('HGET', KEYS[lock], 'mode'))
  if not token then
    token = now
    redis.call('HSET', KEYS[lock], 'mode', written(token, id))
  end
  return token
end

local function split(list)
  local holds = {}
  for hold in string.gmatch(list, '[^,]+') do
    table.insert(holds, hold)
  end
  return holds
end

-- Returns the holds of the list that have no tombstone.
local function unburied(list)
  local holds, left = split(list), {}
  local names = split('x' .. string.gsub(list, ',', ',x'))
  for at, tombstone in ipairs(redis.call('ZMSCORE', KEYS[line], unpack(names))) do
    if not tombstone then
      table.insert(left, holds[at])
    end
  end
  return left
end

-- Sets the expiry of a lock that a reader has left to the last lease of the remaining readers.
local function settle()
  local hold, lasts = latest()
  if hold then
    redis.call('PEXPIREAT', KEYS[lock], lasts)
  end
end

-- Gives a lock that is free or shared to the first in its line. These are all readers at its head, or one writer if the
-- lock is free. A free lock gets this token. The readers of the inbox `mine` get the lease `ttl`, and no message.
-- Returns the longest lease that was given.
local function admit(now, is_free, token, mine, ttl)
  local longest
  while true do
    local inbox, wish = head(now)
    if not inbox then
      return longest
    end
    local list, lease, id, limit = unpack(wish, 1, 4)
    if limit then
      local holds = split(list)
      if not is_free and not fits(#holds, limit) then
        return longest
      end
      leave(inbox)
      lease = inbox == mine and ttl or lease
      enter(holds, lease, now, is_free and token)
      token = is_free and token or shown(now)
    else
      if not is_free then
        return longest
      end
      leave(inbox)
      take(list, lease, token, id)
    end
    if inbox ~= mine then
      notify(inbox, list .. string.format(' %.0f %.0f ', token, now) .. lease .. ' ')
    end
    longest = math.max(longest or 0, tonumber(lease))
    if not limit then
      return longest
    end
    is_free = false
  end
end
