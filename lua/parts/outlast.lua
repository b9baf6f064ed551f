-- Part: a hash outlives its last record. Returns what a script that cannot see to that returns: then the hash is removed.
local function outlast(hash, life)
  local left = redis.pcall('PTTL', hash)
  if type(left) == 'table' or left < tonumber(life) then
    local expires = redis.pcall('PEXPIRE', hash, life)
    if expires ~= 1 then
      redis.call('DEL', hash)
      return expires
    end
  end
end
