-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 hold; unless the end is short: 2 ends, 3 inbox
-- returns 1 the hold was in the lock, 0 it was not
-- hold: the id of a hold that shares the lock, or waits for it. inbox: the channel of its process.
-- ends: how the hold ends. 'short': only its field and its lease can be in the store. The word is not sent. 'full': a
--   place in the line may remain as well. After 'full', ' unanswered' follows if a request for the hold may still
--   arrive, which will find a tombstone. ' nested' follows if the depth of the hold may have changed. Then the number
--   of its last change is removed.

-- The usual cases, kept short: no process waits.
local ends = ARGV[2] or 'short'
if ends == 'short' then
  -- include exit
  if exit(1, 2, ARGV[1]) then
    return 1
  end
end

local lock, line, entries = 1, 2, 3
local hold, inbox = ARGV[1], ARGV[3]
local unanswered = string.find(ends, ' unanswered', 1, true)
local nested = string.find(ends, ' nested', 1, true)
-- include token
-- include line
-- include members

-- HDEL and DEL come first: Redis allows them when memory is full, and then every write after them. A failure after them
-- does not mean that the release was rejected.
local depth, stored = unpack(redis.call('HMGET', KEYS[lock], hold, 'mode'))
if depth then
  remove({hold})
end

-- Removes a hold that has only waited from the place of its process.
local function depart()
  local entry = redis.call('HGET', KEYS[entries], inbox)
  local deadline, holds, rest = string.match(entry or '', '^(%d+) (%S+)( .*)$')
  local left = {}
  for _, other in ipairs(split(holds or '')) do
    if other ~= hold then
      table.insert(left, other)
    end
  end
  if left[1] then
    redis.call('HSET', KEYS[entries], inbox, deadline .. ' ' .. table.concat(left, ',') .. rest)
  elseif holds == hold or not entry then
    -- A place whose entry has expired is removed as well. Otherwise it would remain as long as a tombstone.
    leave(inbox)
  end
end

local function move()
  redis.call('ZREM', KEYS[line], 'r' .. hold)
  if depth and not unanswered and not nested and redis.call('EXISTS', KEYS[line]) == 0 then
    return
  end
  local now = clock()
  if unanswered then
    bury(hold, now)
  end
  if nested then
    redis.call('HDEL', KEYS[entries], hold)
  end
  if ends ~= 'short' and not depth then
    depart()
  end
  if tidy(now) then
    settle()
    admit(now)
  elseif redis.call('EXISTS', KEYS[lock]) == 0 then
    admit(now, true, math.max(now, (known(stored) or 0) + 1))
  end
end

if not pcall(move) then
  -- include repair
  messages = {}
  if unanswered and not depth then
    -- It is an error if the tombstone cannot be written.
    move()
  else
    pcall(move)
  end
end
tell()
return depth and 1 or 0
