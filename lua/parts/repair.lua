-- Part: repair(key, reply) returns the reply of a command on the key with this index. The key belongs to the crate: if the
-- reply says that its value is of another type, the key is removed, and nothing is returned.
local function repair(key, reply)
  if type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) then
    redis.call('DEL', KEYS[key])
    return
  end
  return reply
end
