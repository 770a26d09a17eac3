-- What a command sets off. Whoever sent the command reads it in the answer; other replicas are told by a message, which is a hint.
local function tell(replica, ...)
  local effect = { ... }
  effects[#effects + 1] = effect
  -- Names hold no control characters, so a line each is enough; the name comes last.
  if replica ~= me then redis.call('PUBLISH', CHANNEL .. replica, table.concat(effect, '\n') .. '\n' .. name) end
end

local function look_again(replica, request, attempt) tell(replica, 'look', replica, request, text(attempt)) end

local function watched(kind, token, grant, holder, reason)
  if tonumber(bucket[3] or 0) > now then
    redis.call('PUBLISH', CHANNEL .. 'events', table.concat({ kind, token, grant, holder, reason or '', name }, '\n'))
  end
end

-- Ends the lease that holds the lock. The caller promotes.
local function end_lease(how, at, reason)
  remember(L.rq, L.fg, how, at, L.li)
  put('lt', L.tk); put('le', how); put('la', text(at))
  local ended = { 'ended', how, L.li, L.tk, L.gi, L.ho, L.am or '', L.am and L.ar or '' }
  tell(L.am and L.ar or me, unpack(ended))
  watched(how, L.tk, L.gi, L.ho, reason)
  for _, field in ipairs(LEASE_FIELDS) do put(field, nil) end
end
