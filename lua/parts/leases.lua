-- Part: the leases of readers, as they are shown. Needs the part read, and the locals lock and line.
-- is_shared() returns whether the lock is shared. leases_of(fields, now) returns for each of these fields the remaining
-- ms of its own lease, or -1.
local function is_shared()
  local first = read(redis.pcall('ZRANGE', KEYS[line], '(-INEXACT_FROM', '(0', 'BYSCORE', 'LIMIT', 0, 1))[1]
  return first and redis.call('HEXISTS', KEYS[lock], string.sub(first, 2)) == 1
end

local function leases_of(fields, now)
  local members, leases = {}, {}
  for at, field in ipairs(fields) do
    members[at] = 'r' .. field
  end
  for at, score in ipairs(redis.call('ZMSCORE', KEYS[line], unpack(members))) do
    local ends = tonumber(score or 0)
    local is_lease = ends < 0 and ends > -INEXACT_FROM
    leases[at] = is_lease and math.max(-ends - math.floor(now / 1000), 0) or -1
  end
  return leases
end
