-- Part: tokens as they are stored, "seconds microseconds", and behind them, if the process of the holder is to be
-- told who else comes to wait, the id of its inbox.
-- known(stored) returns the token; nothing where there is none, or where it cannot be read. A token and the
-- next one are numbers that Lua knows exactly.
-- written(token, told) returns what is stored.
-- told(stored) returns the inbox that is to be told.
local function known(stored)
  local seconds, micros, rest = string.match(stored or '', '^(%d+) (%d+)(.*)$')
  local is_token = seconds and (rest == '' or string.match(rest, '^ %x+%-%x+%-%x+%-%x+%-%x+$'))
  local token = is_token and seconds * 1000000 + micros
  if token and token > 0 and token < 9007199254740991 then
    return token
  end
end

local function written(token, told)
  local stored = string.format('%.0f %.0f', math.floor(token / 1000000), token % 1000000)
  return told and stored .. ' ' .. told or stored
end

local function told(stored)
  local id = string.match(stored or '', '^%d+ %d+ (%x+%-%x+%-%x+%-%x+%-%x+)$')
  return id and 'reentry:inbox:' .. id
end
