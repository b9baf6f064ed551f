-- Part: the expiry of a key that a script has written. A key that has none, and cannot be given one, is removed, because
-- it would remain for ever. The keys are given by their indexes.
local function expire(key, life)
  local set = redis.pcall('PEXPIRE', KEYS[key], life)
  if type(set) == 'table' then
    redis.call('DEL', KEYS[key])
    error(set.err, 0)
  end
end

-- Keeps a key for at least `life`, if `left` is the reply of PTTL before it was written.
local function outlive(key, life, left)
  if left < 0 then
    expire(key, life)
  elseif left < tonumber(life) then
    redis.call('PEXPIRE', KEYS[key], life)
  end
end
