-- Part: the queue of a lock, and how the lock moves. Needs the part take, and the names of the
-- lock, the queue (zset: inbox -> order) and the entries (hash: inbox -> what it waits for).
-- include entry
local function leave(inbox)
  redis.call('ZREM', queue, inbox)
  redis.call('HDEL', entries, inbox)
end

-- The first live process in the queue and what it waits for; dead ones are removed on the way.
local function head(now)
  while true do
    local inbox = redis.call('ZRANGE', queue, 0, 0)[1]
    if not inbox then
      return
    end
    local wish = {alive(redis.call('HGET', entries, inbox), now)}
    if wish[1] then
      return inbox, wish
    end
    leave(inbox)
  end
end

-- Enters the queue at its end, or keeps the place that the inbox has there.
local function stand(inbox, now, life, hold, lease, meta_life)
  if not redis.call('ZSCORE', queue, inbox) then
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or 0
    redis.call('ZADD', queue, last + 1, inbox)
  end
  local deadline = string.format('%.0f', now + life * 1000)
  local entry = table.concat({deadline, hold, lease, meta_life}, ' ')
  redis.call('HSET', entries, inbox, entry)
  -- Both keys outlive the last of their entries, and end with it.
  if redis.call('PTTL', queue) < tonumber(life) then
    redis.call('PEXPIRE', queue, life)
    redis.call('PEXPIRE', entries, life)
  end
end

-- Moves a free lock to the head of the queue and tells it; returns the lease it has. Nothing comes
-- after this, since a script must not fail once it has sent a message.
local function grant(inbox, wish)
  local hold, lease, meta_life = unpack(wish)
  leave(inbox)
  local token, now = take(hold, lease, meta_life)
  local message = string.format('%s %.0f %.0f %s ', hold, token, now, lease)
  redis.pcall('PUBLISH', inbox, message .. lock)
  return tonumber(lease)
end
