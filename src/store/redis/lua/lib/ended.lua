-- The memory of ended requests: what makes a late duplicate harmless. The newest end lies in the lock (zq: request, zl: lease, zf: fingerprint,
-- zh: how, za: when, zn: attempt); those before it in two hashes, young and old, by their tags: when, and that part of the lock.
-- When the young one has been filled for as long as ends are remembered, it takes the place of the old one, all of whose ends are
-- over by then. gs: the first end in the young one; go: none in the old one is later; gf: ends up to then are forgotten; gk: TTLs set.

-- After the clock stepped back: what was forgotten goes before it would be remembered again, and nothing ended later than now.
local function rewrite_ends()
  for _, key in ipairs({ K.young, K.old }) do
    local flat = redis.call('HGETALL', key)
    for i = 1, #flat, 2 do
      local at = struct.unpack('<d', flat[i + 1])
      if at <= (L.gf or 0) then redis.call('HDEL', key, flat[i])
      elseif at > now then redis.call('HSET', key, flat[i], struct.pack('<d', now) .. flat[i + 1]:sub(9)) end
    end
    keep(key, MEMORY + SECOND)
  end
  put('gf', nil); put('gs', L.gs and math.min(L.gs, now)); put('go', L.go and math.min(L.go, now))
end

local function spill()
  if L.gs and L.za >= L.gs + MEMORY then
    redis.call('UNLINK', K.old)
    if redis.call('EXISTS', K.young) == 1 then redis.call('RENAME', K.young, K.old) end
    put('go', L.za); put('gs', nil); put('gk', nil)
  end
  spill_end(K.young, L.za, struct.pack(PAST, L.zq, L.zf, L.zl or NONE, L.zh, L.zn or -1))
  put('gs', L.gs or L.za)
  if L.gk and L.gk <= now and now < L.gk + SECOND then return end
  keep(K.young, MEMORY + SECOND); keep(K.old, MEMORY + SECOND); put('gk', now)
end

local function remember(request, fingerprint, how, at, lease, attempt)
  at = math.max(at, L.za or 0)
  if L.gf and at <= L.gf then rewrite_ends() end
  if L.zq then spill() end
  put('zq', request); put('zf', fingerprint); put('zh', how); put('za', at); put('zl', lease); put('zn', attempt)
end
