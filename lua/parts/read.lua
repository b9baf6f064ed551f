-- Part: read(...) calls a command that reads, and returns its reply. If the key has a value of another type, it returns {}.
-- Any other error is raised again.
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    return string.find(reply.err, 'WRONGTYPE', 1, true) and {} or redis.call(...)
  end
  return reply
end
