-- Part: the hash with this index outlives its last record. If its expiry
-- cannot be set, the hash is removed, and the error is returned, which the script returns.
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
