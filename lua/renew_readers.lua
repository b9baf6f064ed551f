-- KEYS: 1 lock (hash), 2 queue (zset): the processes that wait, 3 entries (hash): what they wait for
-- ARGV: 1 list, 2 ttl
-- returns the holds that are gone; the leases of all others last at least the TTL from now
-- list: the ids of holds that share the lock, joined by commas. ttl: the TTL in ms.
local lock, queue, entries = 1, 2, 3
local list, ttl = unpack(ARGV)
-- include token
-- include queue
-- include readers

local function renew()
  local now = server_time()
  local inside, gone = inside_and_outside(split(list))
  if inside[1] then
    renew_readers(inside, ttl, now)
  end
  if remove_expired_readers(now) then
    reset_expiry()
    admit(now)
  end
  return gone
end

local gone = with_repair(renew)
send_messages()
return gone
