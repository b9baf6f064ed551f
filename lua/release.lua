-- KEYS: 1 the lock (hash), 2 its meta (string), 3 its queue (zset), 4 the entries of the queue (hash), 5 the tombstone of this hold (string), named only while an acquire of it is unanswered
-- ARGV: 1 hold id, 2 life of the tombstone in ms, 3 inbox; with a successor also: 4 whether another process goes first (1 or 0), 5 its hold id, 6 TTL, 7 least life of the meta, 8 how many tokens, 9 lease of a lock that moves there, 10 life of the entry, all in ms
-- returns {released (1 or 0)}; with a successor also: 1, token, tokens, lease in ms: it has the lock; or 0, remaining ms, time in µs: it stands in the queue
local lock, meta, queue, entries, gone = unpack(KEYS)
local hold, gone_life, inbox, pass, successor, ttl, meta_life, tokens, lease, life = unpack(ARGV)

-- HDEL comes first: it is allowed when memory is full, and so is every write after it.
-- It deletes the key with its last field.
local released = redis.call('HDEL', lock, hold)
if gone then
  redis.call('SET', gone, '1', 'PX', gone_life)
end
local waited = redis.call('EXISTS', queue) == 1
if not (successor or waited) then
  return {released}
end
-- include take
-- include queue

local now = clock()
if released == 1 and redis.call('EXISTS', lock) == 0 then
  -- The lock moves: to the successor, or to the process that has waited longest.
  local ahead, entry
  if waited and (pass == '1' or not successor) then
    ahead, entry = head(now)
  end
  if ahead and not (successor and ahead == inbox) then
    if successor then
      stand(inbox, now, life, table.concat({successor, lease, meta_life, tokens}, ' '))
    end
    local remaining = grant(ahead, entry)
    if successor then
      return {1, 0, remaining, now}
    end
  elseif successor then
    if waited then
      leave(inbox)
    end
    local token, count = reserve(successor, meta_life, tokens)
    take(successor, ttl)
    return {1, 1, token, count, tonumber(ttl)}
  end
  return {1}
end

-- It may have waited only: its place in the line goes to the successor.
local entry = waited and redis.call('HGET', entries, inbox)
if entry and string.match(entry, '^%d+ (%S+)') == hold then
  if successor then
    stand(inbox, now, life, table.concat({successor, lease, meta_life, tokens}, ' '))
    return {released, 0, redis.call('PTTL', lock), now}
  end
  leave(inbox)
end
return {released}
