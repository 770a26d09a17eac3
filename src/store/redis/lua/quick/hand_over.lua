-- The call that is next in line has the lock, in the same moment as the lease before is given back.
local function hand_over(base, known_token, name, key, found, held, attachment, request, attempt, _, lease, grant_id, keeper)
  if not_after < now or not plain_queue(base, name, found) then return nil end
  local waiters, line = base .. 'w:' .. name, base .. 'q:' .. hex(me) .. ':' .. name
  local heard = tonumber(redis.call('HGET', base .. 'r', me))
  if not heard or heard > now or now - heard >= SILENT then return nil end
  local next, another = unpack(redis.call('ZRANGE', line, 0, 1))
  if next ~= request or not another and redis.call('EXISTS', base .. 'm:' .. hex(me) .. ':' .. name) == 1 then return nil end
  local waiter = redis.call('HGET', waiters, request)
  -- w: place, attempt, calls, replica, standing, until when, fingerprint, TTL, min_token, holder, metadata.
  local w = waiter and cmsgpack.unpack(waiter)
  if not w or w[2] ~= attempt or w[3] == '' then return nil end
  local token = draw_quickly(base, known_token, w[9])
  if not token then return nil end
  local is_kept = keeper ~= ''
  local next_lease = struct.pack(LEASE, request, w[7], lease, grant_id, me, is_kept and keeper or NONE, is_kept and me or NONE,
    attempt, is_kept and 1 or 0, #w[10], w[10], #w[11], w[11], #w[3], w[3])
  -- First what may fail, with a token that nobody gets: of the other keys it is known by now that they are ours.
  end_plainly(base, name, held)
  redis.call('ZREM', line, request); redis.call('HDEL', waiters, request)
  has, pe, ex, tt, tk, gr = another and LEASED + QUEUED or LEASED, le, now + w[8], w[8], token, now
  put_lock(key, next_lease .. (another and queue_of(next_place) or ''), ttl_text(another and math.max(ex, now + GONE) or ex))
  return QUICK .. struct.pack('<c1dd', 'H', token, tt) .. lease .. grant_id .. held:sub(25, 40) .. attachment
end
