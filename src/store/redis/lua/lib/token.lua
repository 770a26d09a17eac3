-- The token. The bucket's counter is followed by its incarnation while quick acquires may go by the two: nobody watches.
local function left_behind() return (bucket[2] or ''):find(incarnation, 1, true) end

-- DESIGN 4: the clock sets most tokens, the counter keeps them rising when the clock does not, the skip covers what was forgotten.
local function draw(floor)
  local before = tonumber((bucket[4] or '0'):match('^%d+'))
  local low = math.max(floor, known_token + 1, now)
  if bucket[1] ~= incarnation then low = math.max(low, now + SKIP, before + SECOND) end
  local token = math.max(before + 1, low)
  if token >= TOKEN_END then return nil end
  local counter = text(token) .. (is_watched() and '' or ' ' .. incarnation)
  if bucket[1] == incarnation then redis.call('HSET', K.bucket, 'n', counter); return token end
  local left = { bucket[1] or nil }
  for other in (bucket[2] or ''):gmatch('%S+') do if #left < LEFT_MAX then left[#left + 1] = other end end
  redis.call('HSET', K.bucket, 'n', counter, 'inc', incarnation, 'left', table.concat(left, ' '))
  return token
end
