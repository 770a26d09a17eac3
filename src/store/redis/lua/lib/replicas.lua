-- The server replicas with waiters in this bucket, and when each was last heard of.
local function silent_for(replica)
  local seen = redis.call('HGET', K.replicas, replica)
  return seen and math.max(now - tonumber(seen), 0) or nil
end

local function is_alive(replica) local silent = silent_for(replica); return silent and silent < SILENT end
local function is_gone(replica) local silent = silent_for(replica); return not silent or silent >= GONE end

local function hear_of_me()
  if is_gone(me) then tell(me, 'returned') end
  -- The others: who is gone is forgotten, and a time ahead of now, from a clock that stepped back, is cut to now.
  local seen = redis.call('HGETALL', K.replicas)
  for i = 1, #seen, 2 do
    local ahead = tonumber(seen[i + 1]) - now
    if ahead > 0 then redis.call('HSET', K.replicas, seen[i], text(now)) end
    if ahead <= -GONE then redis.call('HDEL', K.replicas, seen[i]) end
  end
  redis.call('HSET', K.replicas, me, text(now))
  keep(K.replicas, GONE)
end
