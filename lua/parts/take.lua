-- Part: how a free lock is taken. Needs the names of the lock and of its meta.
-- The meta is "seconds microseconds hold seq": the last token, as the TIME that it was made of.
-- clock() returns the server's time in microseconds.
-- reserve(hold, meta_life, count) returns the first of up to count tokens, how many, and the time.
-- take(hold, lease, meta_life, count) enters the hold, and returns the same. The tokens come first: if
-- the script dies between the two, numbers are wasted and nothing else.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function reserve(hold, meta_life, count)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local first, last = now, now
  local state = time[1] .. ' ' .. time[2] .. ' ' .. hold .. ' 0'
  local before = redis.pcall('SET', meta, state, 'PX', meta_life, 'GET')
  if before and before.err then
    -- An error, since a string has no such field. The key is the crate's own: what has another type
    -- there is overwritten, and any other error comes again.
    redis.call('SET', meta, state, 'PX', meta_life)
    before = nil
  end
  local seconds, micros = string.match(before or '', '^(%d+) (%d+)')
  local token = seconds and seconds * 1000000 + micros
  -- One that Lua does not know exactly was never given.
  if token and token > 0 and token < 9007199254740991 then
    -- A block ends now and reaches back, so that no token runs ahead of the clock; and not beyond
    -- the last one. Where that is not known, there is no block.
    first = math.max(token, now - count) + 1
    if first > last then
      last = first
      state = string.format('%.0f %.0f %s 0', math.floor(last / 1000000), last % 1000000, hold)
      redis.call('SET', meta, state, 'PX', meta_life)
    end
  end
  return first, last - first + 1, now
end

local function take(hold, lease, meta_life, count)
  local first, given, now = reserve(hold, meta_life, count)
  redis.call('HINCRBY', lock, hold, 1)
  local set = redis.pcall('PEXPIRE', lock, lease)
  if set ~= 1 then
    -- Without an expiry it would stand for ever.
    redis.call('HDEL', lock, hold)
    error(set.err, 0)
  end
  return first, given, now
end
