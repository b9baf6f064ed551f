-- Part: repairs the keys after a failure, so that the script can begin again. Needs the locals line and entries. Both keys
-- belong to the crate: a value of another type is removed.
for _, read in ipairs({{'ZSCORE', line, ''}, {'HGET', entries, ''}}) do
  local reply = redis.pcall(unpack(read))
  if type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true) then
    redis.call('DEL', read[2])
  end
end
