-- Notes that a server lives, and what it tells the others; shows where the node stands, and what all have told; then writes batches, so that an idle server costs one run. KEYS: the notes of the servers, then the h of each
-- partition, the s of each, the v of each, then those of the batches. ARGV: how many partitions there are, the server, what it tells, how many servers' notes are deleted, these servers, then the batches (batches.lua).
-- The first answer shows, for each partition: the header of a voter; a stranger's next stamp, and the ballot of the last batch that it kept; or why neither can be said. A repeat notes the same.
local SERVERS, NO_BALLOT, find = KEYS[2], ('\0'):rep(18), string.find
local PARTITIONS, BATCHES = tonumber(ARGV[4]), 8 + ARGV[7]

local function stranger(h, s, v)
  local _, header = kept(h, s)
  return { 'stranger', next_stamp(v), header and header:sub(115, 132) or NO_BALLOT }
end

local function beat()
  for at = 8, BATCHES - 1 do call('HDEL', SERVERS, ARGV[at]) end
  call('HSET', SERVERS, ARGV[5], ARGV[6])
  -- About three times a second for each server: for voters it makes no string and no table.
  local seen = call('MGET', unpack(KEYS, 3, 2 + PARTITIONS))
  for at = 1, #seen do
    local header = seen[at]
    if not header or #header < 139 or find(header, present, 1, true) ~= 1 then
      seen[at] = answer(stranger, KEYS[2 + at], KEYS[2 + PARTITIONS + at], KEYS[2 + 2 * PARTITIONS + at])
    end
  end
  return { 'beats', seen, call('HGETALL', SERVERS) }
end

local answers = { answer(beat) }
if ARGV[BATCHES] then write_batches(3 + 3 * PARTITIONS, BATCHES, answers) end
return answers
