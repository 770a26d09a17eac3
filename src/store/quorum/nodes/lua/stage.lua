-- Lays a piece of a snapshot beside the content. ARGV: partition, name of the transfer, for how many seconds it is kept, keys and records.
local function stage()
  local base, VALUES_MAX = 'fp:{q' .. ARGV[4] .. '}:', 1024 -- unpack fails at some thousands
  if not kept(base) then next_stamp(base) end
  local staged = base .. 't:' .. ARGV[5]
  for first = 7, #ARGV, VALUES_MAX do
    redis.call('HSET', staged, unpack(ARGV, first, math.min(first + VALUES_MAX - 1, #ARGV)))
  end
  redis.call('EXPIRE', staged, ARGV[6])
  return { 'done' }
end

return answer(stage)
