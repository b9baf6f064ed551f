-- KEYS: 1 the lock (hash), 2 its meta (hash)
-- ARGV: none
-- returns {remaining ms, -1 without an expiry, -2 free; token or ''; the hold id it belongs to or ''; field, depth, field, depth, …}
local fields = redis.call('HGETALL', KEYS[1])
local state = redis.call('HMGET', KEYS[2], 'token', 'hold')
return {redis.call('PTTL', KEYS[1]), state[1] or '', state[2] or '', unpack(fields)}
