-- Part: makes way after a failure. Needs the names of the line and the entries. They are the crate's
-- own: what has another type there is removed, so that the script may begin again.
for _, read in ipairs({{'ZSCORE', line, ''}, {'HGET', entries, ''}}) do
  local reply = redis.pcall(unpack(read))
  if type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true) then
    redis.call('DEL', read[2])
  end
end
