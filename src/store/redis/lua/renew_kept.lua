--! flags: allow-oom
-- Renews leases of one bucket that streams keep, each as if by a command of its own. Repeated it renews again.
-- ARGV 7: for each lease: lock name, lease id, attachment
-- Reply: each, with for each lease: its code (renewed, gone, attached_elsewhere, broken), details, effects
local function renew_fully(lease, attachment)
  settle()
  if L.li ~= lease then return gone(lease) end
  if attachment ~= L.am then return answer('attached_elsewhere') end
  extend(tonumber(L.tt))
  put('hd', '1')
  return answer('renewed', L.tk, L.tt, text(tonumber(L.ex) - now))
end

-- Nothing but time has come by since it was renewed last: two writes do. Nothing, if there is more to it.
local function renew_quickly(lock_name, lease, attachment)
  if CLASSIC then return nil end
  local key = base .. 'l:' .. lock_name
  local l = redis.call('HMGET', key, 'li', 'am', 'ex', 'tt', 'tk', 'hd', 'uh', 'np', 'mk', 'en', 'la')
  local ends, ttl = tonumber(l[3] or 0), tonumber(l[4] or 0)
  if l[1] ~= lease or l[2] ~= attachment or not l[6] or l[7] or l[8] or l[9] or l[10] or l[11] then return nil end
  if ends <= now or ends > now + ttl then return nil end
  redis.call('HSET', key, 'ex', text(now + ttl))
  keep(key, ttl + MEMORY)
  return { nil, 'renewed', { l[5], l[4], l[4] } }
end

local each = {}
for place = 7, #ARGV, 3 do
  local lock_name, lease, attachment = ARGV[place], ARGV[place + 1], ARGV[place + 2]
  effects = {}
  -- A lock whose keys are not ours is no trouble of the others.
  local fine, one = pcall(function()
    local quick = renew_quickly(lock_name, lease, attachment)
    if not quick then open(lock_name) end
    return quick or renew_fully(lease, attachment)
  end)
  if not fine then one, effects = { nil, 'broken', { type(one) == 'table' and one.err or tostring(one) } }, {} end
  each[#each + 1] = { one[2], one[3], effects }
end
return { text(now), 'each', each, {} }
