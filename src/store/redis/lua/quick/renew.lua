-- The lease that has the lock is renewed, and nobody waits for it.
local function renew_quickly(base, name, lease, attachment, ttl)
  local key = base .. 'l:' .. name
  local found = redis.call('GET', key)
  if not found or #found < HEAD_END or not plain(found) or is_queued() or ex == -1 then return nil end
  local held = found:sub(lease_at)
  if held:sub(25, 40) ~= lease or attachment and held:sub(73, 88) ~= attachment then return nil end
  ttl = ttl or tt
  if now + ttl >= ex then ex, tt = now + ttl, ttl end
  has = LEASED + HEARD
  put_lock(key, held, ttl_text(ex))
  return QUICK .. struct.pack('<c1ddd', 'N', tk, tt, ex - now)
end
