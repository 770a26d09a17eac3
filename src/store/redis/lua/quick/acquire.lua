-- A request that is not known, for a lock that is free, or that another has: it is refused if nobody waits, or stands in line (enqueue.lua).
local function quickly(base, known_token, name, wait, ttl, floor, kept_for, lease)
  local key, request = base .. 'l:' .. name, lease:sub(1, 16)
  local found = redis.call('GET', key)
  if not_after < now or floor > now + DAY or floor >= TOKEN_END or found and #found < HEAD_END or not plain(found) then return nil end
  if past:sub(1, 16) == request then return nil end
  if gs ~= -1 and redis.call('HEXISTS', base .. 'e:' .. name, lease:sub(25, 32)) == 1 then return nil end
  if go ~= -1 and redis.call('HEXISTS', base .. 'o:' .. name, lease:sub(25, 32)) == 1 then return nil end
  if ex ~= -1 then
    local held, _, _, grant_id, _, _, _, _, _, holder, metadata = struct.unpack(LEASE, found, lease_at)
    if held == request or (redis.call('GET', base .. 'n') or ''):sub(9) ~= incarnation_id then return nil end
    if wait == 1 then return enqueue(base, name, key, found, ttl, floor, lease) end
    if is_queued() or struct.unpack('<I4', lease, ATTEMPT_AT) > 1 then return nil end
    if changed then put_lock(key, found:sub(lease_at), ttl_text(ex)) end
    return cmsgpack.pack('contended', { 0, holder, metadata, grant_id, tk, tt, ex - now, math.max(now - gr, 0) }, {})
  end
  if is_queued() then return nil end
  local token = draw_quickly(base, known_token, floor)
  if not token then return nil end
  has, pe, ex, tt, tk, gr = LEASED, le, now + ttl, ttl, token, now
  put_lock(key, lease, kept_for)
  return struct.pack('<c1c1c1ddc0', QUICK, 'G', pe, token, ttl, lease:sub(25, 56))
end
