-- A request that is not known, for a lock that another has: it stands in line, behind others of this replica or as the first.
local function enqueue(base, name, key, found, ttl, floor, lease)
  if not plain_queue(base, name, found) then return nil end
  local waiters, line, replicas = base .. 'w:' .. name, base .. 'q:' .. hex(me) .. ':' .. name, base .. 'r'
  local request, count = lease:sub(1, 16), redis.call('HLEN', waiters)
  if count >= waiters_max or count > 0 and redis.call('HEXISTS', waiters, request) == 1 then return nil end
  -- Who is gone is left to the rules, and what the clock stepped back over.
  local heard, flat = nil, redis.call('HGETALL', replicas)
  for i = 1, #flat, 2 do
    local at = tonumber(flat[i + 1])
    if at > now or at <= now - GONE then return nil end
    if flat[i] == me then heard = at end
  end
  if not heard then return nil end
  local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')[2]
  -- Whoever is first in line looks whether the keys that this brings into play are ours.
  if not first then redis.call('ZCARD', base .. 'm:' .. hex(me) .. ':' .. name); redis.call('ZCARD', base .. 'd:' .. name) end
  local fingerprint, _, _, _, _, _, attempt, _, holder, metadata, id = select(2, struct.unpack(LEASE, lease))
  redis.call('HSET', replicas, me, text(now))
  redis.call('HSET', waiters, request, cmsgpack.pack({ next_place, attempt, id, me, 'I', 0, fingerprint, ttl, floor, holder, metadata }))
  redis.call('ZADD', line, text(next_place), request)
  redis.call('PEXPIRE', waiters, ttl_of(GONE)); redis.call('PEXPIRE', line, ttl_of(GONE))
  -- That of the replicas is set once a second: there is a note in it of when this one was heard of before.
  if math.floor(heard / SECOND) ~= math.floor(now / SECOND) then redis.call('PEXPIRE', replicas, ttl_of(GONE)) end
  has = bit.bor(has, QUEUED)
  put_lock(key, found:sub(lease_at, lease_end) .. queue_of(next_place + 1), ttl_text(math.max(ex, now + GONE)))
  return QUICK .. struct.pack('<c1dd', 'Q', next_place, first and tonumber(first) or next_place)
end
