-- Clients of the classic recipe, SET name value NX PX ttl: with CLASSIC (their prefix) each lease and each offer has a key of theirs too. What
-- else lies under that key, of whatever type, is theirs and holds the lock.
local classic, ours, looked, OFFERED = nil, nil, false, 'on offer by fencepost'

local function as_uuid(id)
  return (hex(id):gsub('^(%x%x%x%x%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x%x%x%x)', '%1-%2-%3-%4-'))
end

local function look_at_classic()
  classic, ours, looked = nil, nil, CLASSIC ~= nil
  local found = CLASSIC and redis.pcall('GET', CLASSIC .. name)
  if not found then return end
  if found == OFFERED or L.gi and found == as_uuid(L.gi) then ours = found else classic = redis.call('PTTL', CLASSIC .. name) end
end

-- Neither lease nor offer stands beside a classic client.
local function make_way()
  if not classic then return end
  if L.li then end_lease('V', now, 'a classic client has ' .. CLASSIC .. name) end
  local request = L.oq
  put('oq', nil); put('ou', nil)
  if request then set_standing(request, 'I') end
end

-- Has the key say what the lock says. Nothing came between the look at it and this: it is ours, or nobody's.
local function write_classic()
  if not looked then return end
  local key, value, till = (CLASSIC or '') .. name, L.li and as_uuid(L.gi) or L.oq and OFFERED, L.ex or L.ou
  if ours and not value then redis.call('DEL', key) end
  if not value or (ours == value and not changed.ex and not changed.ou) then return end
  -- Rounded up, and 1 ms more: Redis reckons from the millisecond in which the script began. It must not end before the lease does.
  redis.call('SET', key, value, ours and 'XX' or 'NX', 'PX', text(math.ceil((till - now) / 1000) + 1))
end
