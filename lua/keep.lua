-- KEYS: 1 lock (hash), 2 line (zset): its queue, 3 entries (hash): the entries of the line
-- ARGV: 1 list, 2 ttl
-- returns the holds that are gone; the leases of all others last at least the TTL from now
-- list: the ids of holds that share the lock, joined by commas. ttl: the TTL in ms.
local lock, line, entries = 1, 2, 3
local list, ttl = unpack(ARGV)
-- include token
-- include line
-- include members

local function renew()
  local now = clock()
  local inside, gone = within(split(list))
  if inside[1] then
    keep(inside, ttl, now)
  end
  if tidy(now) then
    settle()
    admit(now)
  end
  return gone
end

local gone = attempt(renew)
tell()
return gone
