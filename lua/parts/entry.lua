-- Part: an entry of the line, "deadline holds lease", with the deadline in µs and the lease in ms. The holds are joined
-- by commas; a writer has one. A further word may follow. For a writer it is the id of the inbox, if the inbox gets a
-- message when another process begins to wait while its process holds the lock. For readers it is the letter r,
-- followed by the maximum number of holders with which they enter, if there is a limit.
-- alive(entry, now) returns the words after the deadline if the process counts as alive. It returns nothing for a dead
-- process, and nothing for an entry that cannot be read, as if the process had never asked.
local function alive(entry, now)
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
