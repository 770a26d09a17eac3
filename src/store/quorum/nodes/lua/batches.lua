-- Writes batches onto those before them: sections of many partitions, of which the first has its keys from KEYS[key] on, and its values from ARGV[at] on. KEYS, for each: h, s, v, c. ARGV, for each: stamp + ballot +
-- batch before, stamp + ballot + batch + time, highest token, how many of the values that follow are keys that are gone, how many are keys and records, and these values. A repeat finds its batch there.
-- All headers are read by one command and written by one, because commands are what a run costs.
local function write_batches(key, at, answers)
  local names = {}
  for name = key, #KEYS, 4 do
    names[#names + 1], names[#names + 2] = KEYS[name], KEYS[name + 1]
  end
  local found = call('MGET', unpack(names))
  for name = 1, #names, 2 do
    headers[names[name]], sequencers[names[name]] = found[name], found[name + 1]
  end
  while ARGV[at] do
    local put = at + 5 + ARGV[at + 3]
    local past = put + ARGV[at + 4]
    answers[#answers + 1] = answer(write, key, ARGV[at], ARGV[at + 1], ARGV[at + 2], at + 5, put, past)
    key, at = key + 4, past
  end
  if #written > 0 then call('MSET', unpack(written)) end
  return answers
end
