-- The server replicas with waiters in this bucket, and when each was last heard of.
local seen
local function silent_for(replica)
  if not seen then
    seen = {}
    local flat = redis.call('HGETALL', K.replicas)
    for i = 1, #flat, 2 do seen[flat[i]] = tonumber(flat[i + 1]) end
  end
  return seen[replica] and math.max(now - seen[replica], 0)
end

local function is_alive(replica) local silent = silent_for(replica); return silent and silent < SILENT end
local function is_gone(replica) local silent = silent_for(replica); return not silent or silent >= GONE end

local function hear_of_me()
  if is_gone(me) then tell(me, 'returned') end
  -- The others: who is gone is forgotten, and a time ahead of now, from a clock that stepped back, is cut to now.
  for replica, at in pairs(seen) do
    if at > now then redis.call('HSET', K.replicas, replica, text(now)); seen[replica] = now end
    if at <= now - GONE then redis.call('HDEL', K.replicas, replica); seen[replica] = nil end
  end
  redis.call('HSET', K.replicas, me, text(now))
  seen[me] = now
  keep(K.replicas, GONE)
end
