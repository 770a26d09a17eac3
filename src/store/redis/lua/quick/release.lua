-- The lease that has the lock is given back, and nobody waits for it.
-- Whoever watches has said so in all buckets before the watch begins (RedisStore::ask_for_events): one of them is as good as another.
local watches
local function anybody_watches()
  if watches == nil then watches = redis.call('HEXISTS', KEYS[1], 'watched') == 1 end
  return watches
end

local function quickly(base, known_token, name, lease)
  local key, young = base .. 'l:' .. name, base .. 'e:' .. name
  local found = redis.call('GET', key)
  if not found or #found < HEAD_END or not plain(found) then return nil end
  local held = found:sub(lease_at, lease_at + LEASE_IDS - 1)
  if ex == -1 or held:sub(25, 40) ~= lease or gs ~= -1 and za >= gs + MEMORY or anybody_watches() then return nil end
  local attachment = held:sub(73, 104)
  if attachment == NONE .. NONE then attachment = '' elseif attachment:sub(17) ~= me then return nil end
  if za ~= -1 then
    spill_end(young, za, past)
    if gs == -1 then gs = za end
    if gk == -1 or now < gk or now >= gk + SECOND then
      redis.call('PEXPIRE', young, ttl_of(MEMORY + SECOND))
      if go ~= -1 then redis.call('PEXPIRE', base .. 'o:' .. name, ttl_of(MEMORY + SECOND)) end
      gk = now
    end
  end
  past = held:sub(1, 40) .. 'R' .. struct.pack('<i4', -1)
  has, le, pe, lt, la, za, ex, tt, tk, gr = 0, 'R', ' ', tk, now, now, -1, -1, -1, -1
  put_lock(key, '', ttl_text(now))
  return QUICK .. 'R' .. lease .. attachment
end
