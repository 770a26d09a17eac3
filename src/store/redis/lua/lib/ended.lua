-- The memory of ended requests: what makes a late duplicate harmless. A hash to find them in, a list to forget them in order.
local function remember(request, fingerprint, how, at, lease, attempt)
  at = math.max(at, tonumber(L.en or 0))
  put('en', text(at))
  redis.call('HSET', K.ended, 'q' .. request, cmsgpack.pack({ fingerprint, how, at, lease or '', attempt or 0 }))
  if lease then redis.call('HSET', K.ended, 'l' .. lease, cmsgpack.pack({ how, at })) end
  redis.call('RPUSH', K.order, cmsgpack.pack({ at, request, lease or '' }))
  keep(K.ended, MEMORY); keep(K.order, MEMORY)
end

-- At every command, so that a clock that steps back brings nothing back to mind.
local function forget()
  for _ = 1, L.en and BATCH or 0 do
    local oldest = redis.call('LINDEX', K.order, 0)
    if not oldest then put('en', nil); break end
    oldest = cmsgpack.unpack(oldest)
    if now < oldest[1] + MEMORY then break end
    redis.call('LPOP', K.order)
    local found = redis.call('HGET', K.ended, 'q' .. oldest[2])
    -- The same id may have been used again since.
    if found and cmsgpack.unpack(found)[3] <= oldest[1] then redis.call('HDEL', K.ended, 'q' .. oldest[2]) end
    if oldest[3] ~= '' then redis.call('HDEL', K.ended, 'l' .. oldest[3]) end
  end
end

local function find_ended(field)
  local found = redis.call('HGET', K.ended, field); return found and cmsgpack.unpack(found) or nil
end

-- { fingerprint, how, at, lease, attempt } of a request, whether it ended (E, R, V: its lease did; T: timed out; A: abandoned) or was
-- refused (F, at a later attempt than the first).
local function past_of(request)
  local found = find_ended('q' .. request)
  if found and now < found[3] + MEMORY then return found end
end

local function end_of_lease(lease)
  local found = find_ended('l' .. lease)
  if found and now < found[2] + MEMORY then return found[1] end
end
