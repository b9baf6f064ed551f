-- Part: read(reply) returns the reply of a command that reads, or {} if it is an error. If the key has a value of another type,
-- that is all. Any other error is in `failed` from then on, and the script returns it.
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
