-- Part: read(command, key, …) calls a command that reads the key with this index, and returns its reply. If the key has a value of another type, it returns {}.
-- Any other error is raised again.
local function read(command, key, ...)
  local reply = redis.pcall(command, KEYS[key], ...)
  if type(reply) == 'table' and reply.err then
    return string.find(reply.err, 'WRONGTYPE', 1, true) and {} or redis.call(command, KEYS[key], ...)
  end
  return reply
end
