-- The lease that has the lock is renewed, and nobody waits for it.
local function renew_quickly(base, name, lease, attachment, ttl)
  local key = base .. 'l:' .. name
  local V = plain(key)
  if not V or V.li ~= lease or attachment and V.am ~= attachment then return nil end
  ttl = ttl or V.tt
  if now + ttl >= V.ex then V.ex, V.tt = now + ttl, ttl end
  V.uh, V.hd = nil, 1
  store_lock(key, V, V.ex, LEASE_END - 1)
  return cmsgpack.pack('renewed', 3, V.tk, V.tt, V.ex - now)
end
