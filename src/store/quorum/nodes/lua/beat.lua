-- Notes that a server lives, and what it tells the others; shows where the node stands, and what all have told. KEYS: the notes of the servers, then the h of each partition, the s of each, the v of each. ARGV: how many partitions there are, the server, what it
-- tells, and the servers whose notes are deleted. Answers, for each partition: the header of a voter; a stranger's next stamp, and the ballot of the last batch
-- that it kept; or why neither can be said. A repeat notes the same.
local SERVERS, NO_BALLOT, find = KEYS[2], ('\0'):rep(18), string.find

local function stranger(h, s, v)
  local _, header = kept(h, s)
  return { 'stranger', next_stamp(v), header and header:sub(115, 132) or NO_BALLOT }
end

local function beat()
  local count = tonumber(ARGV[4])
  for at = 7, #ARGV do redis.call('HDEL', SERVERS, ARGV[at]) end
  redis.call('HSET', SERVERS, ARGV[5], ARGV[6])
  -- Three times a second for each server: for voters it makes no string and no table.
  local headers = redis.call('MGET', unpack(KEYS, 3, 2 + count))
  for at = 1, #headers do
    local header = headers[at]
    if not header or #header < 139 or find(header, present, 1, true) ~= 1 then
      headers[at] = answer(stranger, KEYS[2 + at], KEYS[2 + count + at], KEYS[2 + 2 * count + at])
    end
  end
  return { 'beats', headers, redis.call('HGETALL', SERVERS) }
end

return answer(beat)
