-- Part: what looks like a holder: a field as this crate and the classic scripts write it, `<uuid>:<number>`, with a count
-- of entries.
local function is_hold(field)
  return #field < 58 and string.find(field, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%d+$')
end

local function is_depth(value)
  return #value < 20 and string.find(value, '^[1-9]%d*$')
end
