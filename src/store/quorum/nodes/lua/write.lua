-- Writes batches onto those before them: sections of many partitions. ARGV, for each: partition, stamp + ballot + batch before, stamp + ballot + batch + time,
-- highest token, how many of the values that follow are keys that are gone, how many are keys and records, and these values. A repeat finds its batch there.
local DONE, VALUES_MAX = { 'done' }, 1024 -- unpack fails at some thousands
local function write(base, from, to, token, gone, put, past)
  local votes, header, sequencer = kept(base)
  if not votes then return { 'stranger', next_stamp(base) } end
  if header:sub(81, 138) ~= from then
    local promised, accepted = header:sub(97, 114), header:sub(115, 138)
    if header:sub(81, 96) ~= from:sub(1, 16) or is_before(from:sub(17, 34), promised) then return { 'no', promised } end
    if accepted == to:sub(35, 58) then return DONE end
    if accepted ~= from:sub(35, 58) then return { 'at', accepted } end
  end
  if tonumber(token) < tonumber(sequencer) then return { 'low', sequencer } end
  for first = gone, put - 1, VALUES_MAX do
    redis.call('HDEL', base .. 'c', unpack(ARGV, first, math.min(first + VALUES_MAX, put) - 1))
  end
  for first = put, past - 1, VALUES_MAX do
    redis.call('HSET', base .. 'c', unpack(ARGV, first, math.min(first + VALUES_MAX, past) - 1))
  end
  redis.call('MSET', base .. 'h', present .. to, base .. 's', token)
  return DONE
end

local answers, at = {}, 4
while ARGV[at] do
  local put = at + 6 + ARGV[at + 4]
  local past = put + ARGV[at + 5]
  local base = 'fp:{q' .. ARGV[at] .. '}:'
  answers[#answers + 1] = answer(write, base, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], at + 6, put, past)
  at = past
end
return answers
