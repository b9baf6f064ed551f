-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 id of a hold that shares the lock, or waits for it; unless nothing else of the hold can be there: 2 marks, 'x' to leave a tombstone, 'd' if its depth has changed, 3 inbox
-- returns 1 the hold was in the lock, 0 it was not
local lock, line, entries = unpack(KEYS)
local hold, marks, inbox = ARGV[1], ARGV[2] or '', ARGV[3]
-- include token
-- include line
-- include members

-- HDEL and DEL come first: they are allowed when memory is full, and so is every write after them. What fails after
-- them is no refusal of the release.
local depth, stored = unpack(redis.call('HMGET', lock, hold, 'token'))
if depth then
  redis.call('HDEL', lock, hold)
  close()
end
local ends = string.find(marks, 'x', 1, true)

-- The hold may only have waited: it is taken out of the place of its process.
local function depart()
  local entry = redis.call('HGET', entries, inbox)
  local deadline, holds, rest = string.match(entry or '', '^(%d+) (%S+)( .*)$')
  local left = {}
  for _, other in ipairs(split(holds or '')) do
    if other ~= hold then
      table.insert(left, other)
    end
  end
  if left[1] then
    redis.call('HSET', entries, inbox, deadline .. ' ' .. table.concat(left, ',') .. rest)
  elseif holds == hold then
    leave(inbox)
  end
end

local function move()
  redis.call('ZREM', line, 'r' .. hold)
  if depth and marks == '' and redis.call('EXISTS', line) == 0 then
    return
  end
  local now = clock()
  if ends then
    bury(hold, now)
  end
  if string.find(marks, 'd', 1, true) then
    redis.call('HDEL', entries, hold)
  end
  if inbox and not depth then
    depart()
  end
  if tidy(now) then
    settle()
    admit(now)
  elseif redis.call('EXISTS', lock) == 0 then
    admit(now, true, math.max(now, (known(stored) or 0) + 1))
  end
end

if not pcall(move) then
  -- include mend
  messages = {}
  if ends and not depth then
    -- A tombstone that cannot be written is an error.
    move()
  else
    pcall(move)
  end
end
tell()
return depth and 1 or 0
