-- Writes batches onto those before them: sections of many partitions. KEYS, for each: h, s, v, c. ARGV, for each: stamp + ballot + batch before, stamp + ballot + batch + time,
-- highest token, how many of the values that follow are keys that are gone, how many are keys and records, and these values. A repeat finds its batch there.
-- All headers are read by one command and written by one, because commands are what a run costs.
local KEYS, ARGV, call = KEYS, ARGV, redis.call
local DONE, VALUES_MAX = { 'done' }, 1024 -- unpack fails at some thousands
local names, headers, sequencers, written, places = {}, {}, {}, {}, {}
for at = 2, #KEYS, 4 do
  names[#names + 1], names[#names + 2] = KEYS[at], KEYS[at + 1]
end
local found = call('MGET', unpack(names))
for at = 1, #names, 2 do
  headers[names[at]], sequencers[names[at]] = found[at], found[at + 1]
end

local function write(key, from, to, token, gone, put, past)
  local h, s, v, c = KEYS[key], KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  local header, sequencer = headers[h], sequencers[h]
  if not (header and sequencer and #header > 138 and header:sub(1, 80) == present) then
    local votes
    votes, header, sequencer = kept(h, s)
    if not votes then return { 'stranger', next_stamp(v) } end
  end
  if header:sub(81, 138) ~= from then
    local promised, accepted = header:sub(97, 114), header:sub(115, 138)
    if header:sub(81, 96) ~= from:sub(1, 16) or is_before(from:sub(17, 34), promised) then return { 'no', promised } end
    if accepted == to:sub(35, 58) then return DONE end
    if accepted ~= from:sub(35, 58) then return { 'at', accepted } end
  end
  local raise = token - sequencer
  if raise < 0 then return { 'low', sequencer } end
  if raise > 0 then
    local raised = call('INCRBY', s, raise)
    if raised ~= tonumber(token) then return { 'low', ('%.0f'):format(raised) } end
  end
  for first = gone, put - 1, VALUES_MAX do
    call('HDEL', c, unpack(ARGV, first, math.min(first + VALUES_MAX, put) - 1))
  end
  for first = put, past - 1, VALUES_MAX do
    call('HSET', c, unpack(ARGV, first, math.min(first + VALUES_MAX, past) - 1))
  end
  local place = places[h] or #written + 1
  places[h], written[place], written[place + 1] = place, h, present .. to
  headers[h], sequencers[h] = written[place + 1], token
  return DONE
end

local answers, key, at = {}, 2, 4
while ARGV[at] do
  local put = at + 5 + ARGV[at + 3]
  local past = put + ARGV[at + 4]
  answers[#answers + 1] = answer(write, key, ARGV[at], ARGV[at + 1], ARGV[at + 2], at + 5, put, past)
  key, at = key + 4, past
end
if #written > 0 then call('MSET', unpack(written)) end
return answers
