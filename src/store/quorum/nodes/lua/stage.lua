-- Lays a piece of a snapshot beside the content. KEYS: h, s, v, t:<name of the transfer>. ARGV: for how many seconds it is kept, keys and records.
local function stage()
  local VALUES_MAX = 1024 -- unpack fails at some thousands
  local h, s, v, staged = unpack(KEYS, 2)
  if not kept(h, s) then next_stamp(v) end
  for first = 5, #ARGV, VALUES_MAX do
    redis.call('HSET', staged, unpack(ARGV, first, math.min(first + VALUES_MAX - 1, #ARGV)))
  end
  redis.call('EXPIRE', staged, ARGV[4])
  return { 'done' }
end

return answer(stage)
