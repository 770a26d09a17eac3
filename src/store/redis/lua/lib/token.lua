-- The token.
local function left_behind()
  for left in (bucket[2] or ''):gmatch('%S+') do if left == incarnation then return true end end
  return false
end

-- DESIGN 4: the clock sets most tokens, the counter keeps them rising when the clock does not, the skip covers what was forgotten.
local function draw(floor)
  guard(K.count, 'string')
  local before = tonumber(redis.call('GET', K.count) or 0)
  local low = math.max(floor, known_token + 1, now)
  if bucket[1] ~= incarnation then low = math.max(low, now + SKIP, before + SECOND) end
  local token = math.max(before + 1, low)
  if token >= TOKEN_END then return nil end
  redis.call('INCR', K.count)
  if token > before + 1 then redis.call('SET', K.count, text(token)) end
  if bucket[1] ~= incarnation then
    local left = { bucket[1] or nil }
    for other in (bucket[2] or ''):gmatch('%S+') do if #left < LEFT_MAX then left[#left + 1] = other end end
    redis.call('HSET', K.bucket, 'inc', incarnation, 'left', table.concat(left, ' '))
  end
  return token
end
