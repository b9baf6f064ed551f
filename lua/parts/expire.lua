-- Part: the expiry of a key that the script has written. The key is given by its index, the life in ms.

-- Sets the expiry. A key that cannot be given one is removed, because it would remain for ever.
local function set_expiry(key, life)
  local set = redis.pcall('PEXPIRE', KEYS[key], life)
  if type(set) == 'table' then
    redis.call('DEL', KEYS[key])
    error(set.err, 0)
  end
end

-- Keeps the key for at least this life. `left` is the reply of PTTL before the key was written.
local function keep_at_least(key, life, left)
  if left < 0 then
    set_expiry(key, life)
  elseif left < tonumber(life) then
    redis.call('PEXPIRE', KEYS[key], life)
  end
end
