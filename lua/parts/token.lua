-- Part: a stored token, "seconds microseconds", in the field `mode` of the lock. Redisson's read and write locks enter
-- a hash only if it does not have that field, or if its value is `read` or `write`. The id of the holder's inbox
-- follows, if the inbox gets a message when another process begins to wait.
-- known(stored) returns the token. Returns nothing if there is no token, or if it cannot be read. Lua represents a
-- token and the next one exactly.
-- written(token, told) returns the stored form of the token; told is the id of the inbox, or nil.
-- told(stored) returns the inbox that gets the message. Returns nothing if there is none.
local function known(stored)
  local seconds, micros, rest = string.match(stored or '', '^(%d+) (%d+)(.*)$')
  local is_token = seconds and (rest == '' or string.match(rest, '^ %x+%-%x+%-%x+%-%x+%-%x+$'))
  local token = is_token and seconds * 1000000 + micros
  if token and token > 0 and token < INEXACT_FROM - 1 then
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
