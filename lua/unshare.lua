-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 id of a hold that shares the lock, or waits for it; unless nothing else of the hold can be there: 2 marks, 'x' to leave a tombstone, 'd' if its depth has changed, 3 inbox
-- returns 1 the hold was in the lock, 0 it was not

-- The usual cases, kept short, where no process waits. Alone: the lock goes. Beside others, none of whom is dead: it
-- lasts as long as the latest lease of the others.
if not ARGV[2] then
  local own = 'r' .. ARGV[1]
  local first = redis.pcall('ZRANGE', KEYS[2], 0, 1, 'WITHSCORES')
  local at = first[1] == own and 3 or 1
  local latest, score = first[at], tonumber(first[at + 1])
  if at == 3 and not latest then
    local fields = redis.call('HMGET', KEYS[1], ARGV[1], 'token')
    if fields[1] and fields[2] and redis.call('HLEN', KEYS[1]) == 2 then
      redis.call('DEL', KEYS[1], KEYS[2])
      return 1
    end
  elseif score and score < 0 and score > -9007199254740992 then
    local time = redis.call('TIME')
    local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    local others = {'(-' .. now, '(4503599627370496', 'BYSCORE', 'LIMIT', 0, 1}
    if not redis.call('ZRANGE', KEYS[2], unpack(others))[1] then
      local fields = redis.call('HMGET', KEYS[1], ARGV[1], string.sub(latest, 2))
      if fields[1] and fields[2] then
        redis.call('HDEL', KEYS[1], ARGV[1])
        redis.pcall('ZREM', KEYS[2], own)
        redis.pcall('PEXPIREAT', KEYS[1], string.format('%.0f', -score))
        return 1
      end
    end
  end
end

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
  elseif holds == hold or not entry then
    -- Also a place whose entry has expired: it would stay as long as a tombstone.
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
