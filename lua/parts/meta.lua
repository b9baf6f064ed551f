-- Part: the meta as it is read. Needs its name.
-- known() returns the last token and the hold that it was given to; nothing where there is no meta, or where
-- it cannot be read. A token and the next one are numbers that Lua knows exactly.
local function known()
  local state = redis.pcall('GET', meta)
  if state and state.err then
    -- No string stands there; any other error comes again.
    state = not string.find(state.err, 'WRONGTYPE', 1, true) and redis.call('GET', meta)
  end
  local seconds, micros, owner = string.match(state or '', '^(%d+) (%d+) (%S+)')
  local token = owner and seconds * 1000000 + micros
  if token and token > 0 and token < 9007199254740991 then
    return token, owner
  end
end
