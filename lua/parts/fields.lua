-- Part: fields_of(hash) returns the fields of the hash with this index, each followed by its value. Of a big hash it
-- returns about MAX_FIELDS_READ of them, because the server does nothing else in the meantime. It may also return an error.
local function fields_of(hash)
  local count = redis.pcall('HLEN', KEYS[hash])
  if type(count) == 'table' then
    return count
  elseif count == 0 then
    return {}
  elseif count > MAX_FIELDS_READ then
    local scanned = redis.pcall('HSCAN', KEYS[hash], 0, 'COUNT', MAX_FIELDS_READ)
    return scanned[2] or scanned
  end
  return redis.pcall('HGETALL', KEYS[hash])
end
