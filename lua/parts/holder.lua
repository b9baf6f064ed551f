-- Part: how a holder is recognized. This crate and the classic scripts write a field `<uuid>:<number>`, whose value is
-- the number of entries.
local function is_hold(field)
  local four = '%x%x%x%x'
  local uuid = four .. four .. '%-' .. four .. '%-' .. four .. '%-' .. four .. '%-' .. four .. four .. four
  return #field < 58 and string.find(field, '^' .. uuid .. ':%d+$')
end
