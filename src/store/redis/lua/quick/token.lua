-- Draws a token if the counter says that this life of Redis is the bucket's, and that nobody watches. If not, or
-- when there is none left: nothing, and the counter is what it was.
local function draw_quickly(base, known_token, floor)
  local counter, token = base .. 'n', math.max(floor, known_token + 1, now)
  if token >= TOKEN_END then return nil end
  -- Written as it will be nearly always, so that one call reads and writes it.
  local before = redis.call('SET', counter, struct.pack('<dc0', token, incarnation_id), 'GET')
  local after = before and before:sub(9) == incarnation_id and struct.unpack('<d', before) + 1 or TOKEN_END
  if after >= TOKEN_END then
    if before then redis.call('SET', counter, before) else redis.call('DEL', counter) end
    return nil
  end
  if after <= token then return token end
  redis.call('SET', counter, struct.pack('<dc0', after, incarnation_id))
  return after
end
