-- KEYS: 1 the lock (hash), 2 its meta (hash)
-- ARGV: 1 a hold id that was seen in the lock, 2 the token that was seen with it, or '' if it has none
-- returns 1 the lock was deleted, 0 it is not what was seen
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[2], 'token') ~= ARGV[2] then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
