-- KEYS: 1 the lock (hash), 2 its line (zset), 3 the entries of the line (hash)
-- ARGV: 1 ids of holds that share the lock, joined by commas, 2 TTL in ms
-- returns the holds that are gone; the leases of all others last at least the TTL from now
local lock, line, entries = unpack(KEYS)
local list, ttl = unpack(ARGV)
-- include token
-- include line
-- include members

local function renew()
  local now = clock()
  local inside, gone = within(split(list))
  if inside[1] then
    -- One whose downgrade is under way has the lock alone until then.
    keep(inside, ttl, now, 'XX')
  end
  if tidy(now) then
    settle()
    admit(now)
  end
  return gone
end

local done, gone = pcall(renew)
if not done then
  -- include mend
  messages = {}
  gone = renew()
end
tell()
return gone
