-- KEYS: 1 the lock (hash), 2 the tombstone of this hold (string), named only while an acquire of it is unanswered
-- ARGV: 1 hold id, 2 life of the tombstone in ms
-- returns 1 released, 0 the hold is not there
local lock, gone = KEYS[1], KEYS[2]
local hold, gone_life = ARGV[1], ARGV[2]

-- HDEL comes first: it is allowed when memory is full, and so is every write after it.
-- It deletes the key with its last field.
local released = redis.call('HDEL', lock, hold)
if gone then
  redis.call('SET', gone, '1', 'PX', gone_life)
end
return released
