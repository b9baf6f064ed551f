-- Part: what a process in the queue waits for: "deadline holds lease", with the deadline in µs and the lease in ms. A
-- writer has one hold, and the id of its inbox may follow, if that gets a message when another process begins to wait.
-- Readers have several holds, joined by commas, and the letter r follows, then their limit if there is one.

-- Returns holds, lease, id and limit of an entry whose process counts as alive; of readers the limit is a string,
-- maybe an empty one. Returns nothing for a dead process. An entry that cannot be read is that of a dead process.
local function live_entry(entry, now)
  local deadline, holds, lease, rest = string.match(entry or '', '^(%d+) (%S+) ([1-9]%d*)(.*)$')
  local id, limit
  if rest and rest ~= '' then
    limit = string.match(rest, '^ r(%d*)$')
    id = not limit and string.match(rest, '^ (%x+%-%x+%-%x+%-%x+%-%x+)$')
  end
  deadline = (rest == '' or id or limit) and tonumber(deadline)
  if deadline and deadline > now and deadline < INEXACT_FROM and #lease < 16 then
    return holds, lease, id, limit
  end
end
