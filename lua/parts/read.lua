-- Part: read(reply) returns the reply of a command that reads, or {} if the reply is an error. An error about a value
-- of another type has no further effect. Any other error is kept in `failed`, and the script returns it.
local failed
local function read(reply)
  if type(reply) == 'table' and reply.err then
    if not string.find(reply.err, 'WRONGTYPE', 1, true) then
      failed = failed or reply
    end
    return {}
  end
  return reply
end
