-- The token. The counter of a bucket is followed by its incarnation while quick paths may go by the two: nobody watches.

-- Whether the sender speaks of a life that Redis has left. A bucket of another life may be of a later one, which the sender has not heard of, and Redis
-- itself has the last word: a note of lives that were left can be wrong for ever, and the torture found how.
local function left_behind() return bucket[1] and bucket[1] ~= incarnation and not is_in(incarnation) end

-- DESIGN 4: the clock sets most tokens, the counter keeps them rising when the clock does not, the skip covers what was forgotten.
local function draw(floor)
  local found = redis.call('GET', K.counter)
  local before = found and struct.unpack('<d', found) or 0
  local low = math.max(floor, known_token + 1, now)
  if bucket[1] ~= incarnation or not found then low = math.max(low, now + SKIP, before + SECOND) end
  local token = math.max(before + 1, low)
  if token >= TOKEN_END then return nil end
  redis.call('SET', K.counter, struct.pack('<d', token) .. (is_watched() and '' or incarnation_id))
  if bucket[1] ~= incarnation then redis.call('HSET', K.bucket, 'inc', incarnation) end
  return token
end
