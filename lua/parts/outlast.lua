-- Part: outlast(hash, life) keeps the hash with this index for at least `life`, so that it outlives its last record. If
-- the expiry cannot be set, the hash is removed, and the error is returned for the script to return.
local function outlast(hash, life)
  local left = redis.pcall('PTTL', KEYS[hash])
  if type(left) == 'table' or left < tonumber(life) then
    local expires = redis.pcall('PEXPIRE', KEYS[hash], life)
    if expires ~= 1 then
      redis.call('DEL', KEYS[hash])
      return expires
    end
  end
end
