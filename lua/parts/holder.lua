-- Part: how a holder is recognized. This crate and the classic scripts write a field `<uuid>:<number>` whose value is the
-- number of entries.
local function is_hold(field)
  return #field < 58 and string.find(field, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%d+$')
end
