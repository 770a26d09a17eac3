-- What a command sets off. The sender reads it in the answer, others are told by a message: a hint, which Redis may refuse to let through.
local function tell(replica, ...)
  local effect = { ... }
  if replica == me then
    if effect[1] == 'event' then effect[#effect + 1] = name end
    effects[#effects + 1] = effect
    return
  end
  if effect[1] ~= 'event' then effects[#effects + 1] = effect end
  redis.pcall('PUBLISH', CHANNEL .. hex(replica), cmsgpack.pack(effect, name))
end

local function from_hex(replica) return (replica:gsub('%x%x', function(byte) return string.char(tonumber(byte, 16)) end)) end

local function look_again(replica, request, attempt) tell(replica, 'look', replica, request, text(attempt)) end

-- For those who watch: the bucket says which replicas have any, and until when they asked.
local function watched(...)
  for replica, till in (bucket[2] or ''):gmatch('(%x+):(%d+)') do
    if now < tonumber(till) then tell(from_hex(replica), 'event', ...) end
  end
end

-- What was asked for and is over goes, so that the quick paths are taken again.
local function is_watched()
  for till in (bucket[2] or ''):gmatch(':(%d+)') do if now < tonumber(till) then return true end end
  if bucket[2] then redis.call('HDEL', K.bucket, 'watched') end
  return false
end

local LEASE_FIELDS = { 'rq', 'at', 'ca', 'rp', 'fg', 'li', 'gi', 'tk', 'gr', 'ex', 'tt', 'ho', 'md', 'pe', 'am', 'ar', 'aa', 'hd', 'uh' }

-- Ends the lease that holds the lock. The caller promotes.
local function end_lease(how, at, reason)
  remember(L.rq, L.fg, how, at, L.li)
  put('lt', L.tk); put('le', how); put('la', at)
  tell(L.am and L.ar or me, 'ended', how, L.li, L.am or '', L.am and L.ar or '')
  watched(how, text(L.tk), L.gi, L.ho, reason or '')
  for _, field in ipairs(LEASE_FIELDS) do put(field, nil) end
end
