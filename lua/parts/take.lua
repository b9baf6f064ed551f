-- Part: how a free lock is taken. Needs the names of the lock and of its meta.
-- The meta is "seconds microseconds hold seq": the last token, as the TIME that it was made of.
-- clock() returns the server's time in microseconds.
-- next_token(hold, meta_life) returns a token greater than the last one, and the time.
-- take(hold, lease, meta_life) enters the hold, and returns the same. The token comes first: if the script
-- dies between the two, a number is wasted and nothing else.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function next_token(hold, meta_life)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local state = time[1] .. ' ' .. time[2] .. ' ' .. hold .. ' 0'
  local before = redis.pcall('SET', meta, state, 'PX', meta_life, 'GET')
  if before and before.err then
    -- An error, since a string has no such field. The key is the crate's own: what has another type
    -- there is overwritten, and any other error comes again.
    redis.call('SET', meta, state, 'PX', meta_life)
    before = nil
  end
  local seconds, micros = string.match(before or '', '^(%d+) (%d+)')
  local last = seconds and seconds * 1000000 + micros
  -- One that Lua does not know exactly was never given.
  if last and last >= now and last < 9007199254740991 then
    state = string.format('%.0f %.0f %s 0', math.floor((last + 1) / 1000000), (last + 1) % 1000000, hold)
    redis.call('SET', meta, state, 'PX', meta_life)
    return last + 1, now
  end
  return now, now
end

local function take(hold, lease, meta_life)
  local token, now = next_token(hold, meta_life)
  redis.call('HINCRBY', lock, hold, 1)
  local set = redis.pcall('PEXPIRE', lock, lease)
  if set ~= 1 then
    -- Without an expiry it would stand for ever.
    redis.call('HDEL', lock, hold)
    error(set.err, 0)
  end
  return token, now
end
