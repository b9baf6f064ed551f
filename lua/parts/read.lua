-- Part: read(...) calls a command that reads, and returns its reply, or {} where a value of another type stands; any
-- other error comes again.
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    return string.find(reply.err, 'WRONGTYPE', 1, true) and {} or redis.call(...)
  end
  return reply
end
