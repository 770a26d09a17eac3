-- The lease that has the lock is given back, and nobody waits for it.
local function quickly(base, known_token, name, lease)
  local key, young = base .. 'l:' .. name, base .. 'e:' .. name
  local V = plain(key)
  if not V or V.li ~= lease or V.am and V.ar ~= me or V.gs and V.za >= V.gs + MEMORY then return nil end
  if redis.call('HEXISTS', base .. 'b', 'watched') == 1 then return nil end
  if V.zq then
    spill_end(young, V.zq, V.za, V.zh, V.zf, V.zl, V.zn)
    V.gs = V.gs or V.za
    if not V.gk or now < V.gk or now >= V.gk + SECOND then
      redis.call('PEXPIRE', young, ttl_of(MEMORY + SECOND))
      if V.go then redis.call('PEXPIRE', base .. 'o:' .. name, ttl_of(MEMORY + SECOND)) end
      V.gk = now
    end
  end
  V.lt, V.le, V.la = V.tk, 'R', now
  V.zq, V.zl, V.zf, V.zh, V.za, V.zn = V.rq, lease, V.fg, 'R', now, nil
  store_lock(key, V, now, PAST_END)
  return cmsgpack.pack('released', 0, 'ended', 'R', lease, V.tk, V.gi, V.ho, V.am or '', V.am and V.ar or '')
end
