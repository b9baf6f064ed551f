-- Part: the token of a lock, as it is stored in the field `mode`: "seconds micros", followed by the id of the holder's
-- inbox if that gets a message when another process begins to wait. Redisson's read and write locks enter a hash only
-- if it has no such field, or if its value is `read` or `write`.

-- Returns the token. Returns nothing if there is none, or if it cannot be read. Lua represents a token and the next one
-- exactly.
local function parse_token(stored)
  local seconds, micros, rest = string.match(stored or '', '^(%d+) (%d+)(.*)$')
  local is_token = seconds and (rest == '' or string.match(rest, '^ %x+%-%x+%-%x+%-%x+%-%x+$'))
  local token = is_token and seconds * 1000000 + micros
  if token and token > 0 and token < INEXACT_FROM - 1 then
    return token
  end
end

-- Returns the stored form. The id is nil if the holder's inbox gets no message.
local function format_token(token, id)
  local stored = string.format('%.0f %.0f', math.floor(token / 1000000), token % 1000000)
  return id and stored .. ' ' .. id or stored
end

-- Returns the inbox of the holder that gets a message when another process begins to wait, if there is one.
local function holder_inbox(stored)
  local id = string.match(stored or '', '^%d+ %d+ (%x+%-%x+%-%x+%-%x+%-%x+)$')
  return id and 'reentry:inbox:' .. id
end
