-- What is remembered of ended requests, and what no longer.
local function forget()
  if not L.za then return end
  if now < L.za + MEMORY then put('gf', L.gs and math.max(L.gf or 0, now - MEMORY) or nil); return end
  if L.gs then redis.call('UNLINK', K.young, K.old) end
  for _, field in ipairs({ 'zq', 'zf', 'zh', 'za', 'zl', 'zn', 'gs', 'go', 'gf', 'gk' }) do put(field, nil) end
end

-- { when, how, fingerprint, lease, attempt, request }
local function find_ended(tag)
  local found = L.gs and redis.call('HGET', K.young, tag)
  if not found and L.go and now < L.go + MEMORY then found = redis.call('HGET', K.old, tag) end
  if not found then return nil end
  local at, request, fingerprint, lease, how, attempt = struct.unpack('<d' .. (PAST):sub(2), found)
  if at > (L.gf or 0) and now < at + MEMORY then return { at, how, fingerprint, lease, attempt, request } end
end

-- Whether a request ended (E, R, V: its lease did; T: timed out; A: abandoned) or was refused (F, at a later attempt than the first).
local function past_of(request)
  if L.zq == request and now < L.za + MEMORY then return { L.za, L.zh, L.zf, L.zl, L.zn } end
  local found = (L.gs or L.go) and find_ended(tag_of(request))
  return found and found[6] == request and found or nil
end

local function end_of_lease(lease)
  if L.zl == lease and now < L.za + MEMORY then return L.zh end
  local found = find_ended(lease:sub(1, 8))
  return found and found[4] == lease and found[2] or nil
end
