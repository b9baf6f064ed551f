-- Part: tokens as they are stored, "seconds microseconds".
-- known(stored) returns the token; nothing where there is none, or where it cannot be read. A token and the
-- next one are numbers that Lua knows exactly.
-- written(token) returns what is stored.
local function known(stored)
  local seconds, micros = string.match(stored or '', '^(%d+) (%d+)$')
  local token = seconds and seconds * 1000000 + micros
  if token and token > 0 and token < 9007199254740991 then
    return token
  end
end

local function written(token)
  return string.format('%.0f %.0f', math.floor(token / 1000000), token % 1000000)
end
