-- The lease that has the lock is given back, and nobody waits for it, or the call that the sender claims for is next (hand_over.lua).
-- Whoever watches has said so in all buckets before the watch begins (RedisStore::ask_for_events): that of the sending's
-- first command, which KEYS[1] is, is as good as the lock's own.
local watches
local function anybody_watches()
  if watches == nil then watches = redis.call('HEXISTS', KEYS[1], 'watched') == 1 end
  return watches
end

local function quickly(base, known_token, name, lease, next_request, ...)
  local key = base .. 'l:' .. name
  local found = redis.call('GET', key)
  if not found or #found < HEAD_END or not plain(found) then return nil end
  local held = found:sub(lease_at, lease_at + LEASE_IDS - 1)
  if ex == -1 or held:sub(25, 40) ~= lease or gs ~= -1 and za >= gs + MEMORY or anybody_watches() then return nil end
  local attachment = held:sub(73, 104)
  if attachment == NO_STREAM then attachment = '' elseif attachment:sub(17) ~= me then return nil end
  if is_queued() then return next_request and hand_over(base, known_token, name, key, found, held, attachment, next_request, ...) end
  end_plainly(base, name, held)
  put_lock(key, '', ttl_text(now))
  return QUICK .. 'R' .. lease .. attachment
end
