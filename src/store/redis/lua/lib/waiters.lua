-- The waiters: a hash of them, and the lines in which they stand, or those who were dropped beside them.
local function waiter_of(request)
  if read[request] then return read[request] end
  local found = L.np and redis.call('HGET', K.waiters, request)
  if not found then return nil end
  local w = cmsgpack.unpack(found)
  read[request] = { place = w[1], attempt = w[2], calls = w[3], replica = w[4], standing = w[5], till = w[6], fingerprint = w[7],
           ttl = w[8], floor = w[9], holder = w[10], metadata = w[11] }
  return read[request]
end

local function unfile(request, w)
  if w.standing == 'D' then redis.call('ZREM', K.dropped, request) end
  if w.standing ~= 'I' and w.standing ~= 'M' then return end
  redis.call('ZREM', w.standing == 'I' and line(w.replica) or missed(w.replica), request)
  if redis.call('ZCARD', line(w.replica)) + redis.call('ZCARD', missed(w.replica)) == 0 then set_in_line(w.replica, false) end
end

local function file(request, w)
  read[request] = w
  redis.call('HSET', K.waiters, request, cmsgpack.pack({ w.place, w.attempt, w.calls, w.replica, w.standing, w.till or 0,
    w.fingerprint, w.ttl, w.floor, w.holder, w.metadata }))
  local key, score = nil, w.place
  if w.standing == 'D' then key, score = K.dropped, w.till end
  if w.standing == 'I' then key = line(w.replica); set_in_line(w.replica, true) end
  if w.standing == 'M' then key = missed(w.replica); set_in_line(w.replica, true) end
  if key then redis.call('ZADD', key, text(score), request); keep(key, GONE) end
  keep(K.waiters, GONE)
end
