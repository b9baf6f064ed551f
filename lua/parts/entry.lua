-- Part: an entry of the line, "deadline holds lease", its deadline in microseconds; and behind it the id of the
-- inbox, if it is to be told, once its process has the lock, who else comes to wait; or, of readers, the letter r
-- and, if there is one, the limit of holders up to which they enter. Holds are joined by commas: a writer is one.
-- alive(entry, now) returns the words after the deadline if the process counts as alive; nothing of a
-- dead one, and of an entry that cannot be read, as if it had never asked.
local function alive(entry, now)
  local deadline, holds, lease, rest = string.match(entry or '', '^(%d+) (%S+) ([1-9]%d*)(.*)$')
  local id = rest and string.match(rest, '^ (%x+%-%x+%-%x+%-%x+%-%x+)$')
  local limit = rest and string.match(rest, '^ r(%d*)$')
  deadline = (rest == '' or id or limit) and tonumber(deadline)
  if deadline and deadline > now and deadline < 9007199254740992 and #lease < 16 then
    return holds, lease, id, limit
  end
end
