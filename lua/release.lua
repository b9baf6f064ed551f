-- KEYS: 1 the lock (hash), 2 its queue (zset), 3 the meta (string), 4 the entries of the queue (hash), 5 the tombstone of this hold (string), named only while an acquire of it is unanswered
-- ARGV: 1 hold id, 2 inbox, 3 life of the tombstone in ms; with a successor also: 4 whether another process goes first (1 or 0), 5 its hold id, 6 TTL, 7 least life of the meta, 8 lease of a lock that moves there, 9 life of the entry, all in ms
-- returns released (1 or 0); with a successor the token that it has got, which is the time, with a lease of its TTL; {released, 1, token, lease in ms, time in µs}: it has the lock; {released, 0, remaining ms, time in µs}: it stands in the queue; {released}: it has to ask

-- HDEL comes first: it is allowed when memory is full, and so is every write after it.
-- It deletes the key with its last field. What fails after it is no refusal of the release.
local released = redis.call('HDEL', KEYS[1], ARGV[1])
if KEYS[5] then
  local buried = redis.pcall('SET', KEYS[5], '1', 'PX', ARGV[3])
  if buried.err and released == 0 then
    return buried
  end
end
local successor = ARGV[5]
-- Whether no other hold is in the lock, and no process waits for it.
local alone = redis.pcall('EXISTS', KEYS[1], KEYS[2]) == 0
if alone and not successor then
  return released
end

local lock, queue, meta, entries = unpack(KEYS)
-- include take
if alone and released == 1 then
  local done, token, at = pcall(take, successor, ARGV[6], ARGV[7])
  if done and token == at then
    return token
  elseif done then
    return {1, 1, token, tonumber(ARGV[6]), at}
  end
end

local function move()
  local waited = redis.call('EXISTS', queue) == 1
  if not (waited or successor) then
    return released
  end
  local hold, inbox, _, queue_first, _, ttl, meta_life, lease, life = unpack(ARGV)
  -- include queue

  local now = clock()
  if released == 1 and redis.call('EXISTS', lock) == 0 then
    -- The lock moves: to the successor, or to the process that has waited longest.
    local ahead, wish
    if waited and (queue_first == '1' or not successor) then
      ahead, wish = head(now)
    end
    if ahead and not (successor and ahead == inbox) then
      if successor then
        stand(inbox, now, life, successor, lease, meta_life)
      end
      local remaining = grant(ahead, wish)
      if successor then
        return {1, 0, remaining, now}
      end
    elseif successor then
      if waited then
        leave(inbox)
      end
      local token, at = take(successor, ttl, meta_life)
      return {1, 1, token, tonumber(ttl), at}
    end
    return {1}
  end

  -- The hold may only have waited: its place in the queue goes to the successor.
  local entry = waited and redis.call('HGET', entries, inbox)
  if entry and string.match(entry, '^%d+ (%S+)') == hold then
    -- Requests may overtake each other: a successor that has the lock by now would get it once more
    -- after its own release.
    if successor and redis.call('HEXISTS', lock, successor) == 0 then
      stand(inbox, now, life, successor, lease, meta_life)
      local remaining = redis.call('PTTL', lock)
      return {released, 0, remaining == -2 and 0 or remaining, now}
    end
    leave(inbox)
  end
  return {released}
end

local done, reply = pcall(move)
if not done then
  -- include mend
  done, reply = pcall(move)
end
return done and reply or {released}
