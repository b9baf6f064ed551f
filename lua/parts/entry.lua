-- Part: an entry of the queue, "deadline hold grant meta_life", its deadline in microseconds.
-- alive(entry, now) returns the words after the deadline if the process counts as alive; nothing of a
-- dead one, and of an entry that cannot be read, as if it had never asked.
local function alive(entry, now)
  local deadline, hold, lease, meta_life =
    string.match(entry or '', '^(%d+) (%S+) ([1-9]%d*) ([1-9]%d*)$')
  deadline = tonumber(deadline)
  if deadline and deadline > now and deadline < 9007199254740992
      and #lease < 16 and #meta_life < 16 then
    return hold, lease, meta_life
  end
end
