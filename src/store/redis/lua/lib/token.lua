-- The token. The counter of a bucket is followed by its incarnation while quick paths may go by the two: nobody watches.

-- Whether the sender speaks of a life that Redis has left. A bucket that is of another one may be of a later one, which its sender has not heard of:
-- then it would put a mark on the life that Redis is in, and lock all others out. Found by the torture.
local function left_behind()
  if (bucket[2] or ''):find(incarnation, 1, true) then return true end
  return bucket[1] and bucket[1] ~= incarnation and not is_in(incarnation)
end

-- DESIGN 4: the clock sets most tokens, the counter keeps them rising when the clock does not, the skip covers what was forgotten.
local function draw(floor)
  local found = redis.call('GET', K.counter)
  local before = found and struct.unpack('<d', found) or 0
  local low = math.max(floor, known_token + 1, now)
  if bucket[1] ~= incarnation or not found then low = math.max(low, now + SKIP, before + SECOND) end
  local token = math.max(before + 1, low)
  if token >= TOKEN_END then return nil end
  redis.call('SET', K.counter, struct.pack('<d', token) .. (is_watched() and '' or incarnation_id))
  if bucket[1] == incarnation then return token end
  local left = { bucket[1] or nil }
  for other in (bucket[2] or ''):gmatch('%S+') do if #left < LEFT_MAX then left[#left + 1] = other end end
  redis.call('HSET', K.bucket, 'inc', incarnation, 'left', table.concat(left, ' '))
  return token
end
