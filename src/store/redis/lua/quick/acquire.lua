-- A request that is not known, for a lock that is free, or that another has and nobody waits for.
local function quickly(base, known_token, name, request, attempt, wait, lease, grant_id, attachment, fingerprint, ttl, floor, holder, metadata)
  if not_after < now or floor > math.min(now + DAY, TOKEN_END - 1) then return nil end
  local counter = redis.call('HGET', base .. 'b', 'n')
  if not counter or counter:sub(-32) ~= incarnation then return nil end
  local key = base .. 'l:' .. name
  local V, changed = plain(key)
  if not V or V.rq == request or V.zq == request then return nil end
  if V.gs and redis.call('HEXISTS', base .. 'e:' .. name, 'q' .. request) == 1 then return nil end
  if V.go and redis.call('HEXISTS', base .. 'o:' .. name, 'q' .. request) == 1 then return nil end
  if V.li then
    if wait ~= 0 or attempt > 1 then return nil end
    if changed then store_lock(key, V, V.ex, LEASE_END) end
    return cmsgpack.pack('contended', 8, 0, V.ho, V.md, V.gi, V.tk, V.tt, V.ex - now, math.max(now - V.gr, 0))
  end
  local token = math.max(tonumber(counter:sub(1, -34)) + 1, floor, known_token + 1, now)
  if token >= TOKEN_END then return nil end
  redis.call('HSET', base .. 'b', 'n', text(token) .. ' ' .. incarnation)
  V.rq, V.at, V.ca, V.rp, V.fg, V.li, V.gi, V.tk, V.gr = request, attempt, 1, me, fingerprint, lease, grant_id, token, now
  V.ex, V.tt, V.ho, V.md, V.pe, V.aa = now + ttl, ttl, holder, metadata, V.le, 0
  if attachment ~= '' then V.am, V.ar, V.aa = attachment, me, 1 end
  store_lock(key, V, V.ex, LEASE_END - 2)
  return cmsgpack.pack('granted', 5, lease, grant_id, token, ttl, V.pe or '', 'granted', lease)
end
