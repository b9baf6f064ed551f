-- Part: repairs the keys after a failure, so that the script can begin again. Needs the locals line and entries. Both keys
-- belong to the crate: a value of another type is removed.
local function repair(key, reply)
  if type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true) then
    redis.call('DEL', KEYS[key])
  end
end
repair(line, redis.pcall('ZSCORE', KEYS[line], ''))
repair(entries, redis.pcall('HGET', KEYS[entries], ''))
