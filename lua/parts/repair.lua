-- Part: the keys beside a lock belong to the crate, so a value of another type is removed there.

-- Returns the reply of a command on the key with this index. If the reply is that the value is of another type, removes
-- the key and returns nothing.
local function repair(key, reply)
  if type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) then
    redis.call('DEL', KEYS[key])
    return
  end
  return reply
end
