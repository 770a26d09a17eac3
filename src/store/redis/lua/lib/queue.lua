-- The queue as a whole.
local function set_standing(request, standing, till)
  local w = waiter_of(request)
  if not w then return end
  unfile(request, w)
  w.standing, w.till = standing, till
  file(request, w)
end

local function take_out(request, w)
  unfile(request, w)
  redis.call('HDEL', K.waiters, request)
  read[request] = nil
  if redis.call('EXISTS', K.waiters) == 0 then put('np', nil) end
end

local function waiters()
  if not L.np then return 0 end
  return redis.call('HLEN', K.waiters) - redis.call('ZCOUNT', K.dropped, '-inf', text(now))
end

-- Takes back an open offer to this request.
local function decline(request) if L.oq == request then put('oq', nil); put('ou', nil) end end

-- Takes a waiter out of the queue and remembers how it ended. The caller promotes.
local function remove_waiter(request, w, how)
  take_out(request, w)
  decline(request)
  remember(request, w.fingerprint, how, now)
end
