-- Notes that a server lives, and what it tells the others; shows where the node stands, and what all have told. ARGV: how many partitions there are, the server, what it
-- tells, the key of each partition's header, and the servers whose notes are deleted. Answers, for each partition: the header of a voter; a stranger's next stamp, and the ballot of the last batch
-- that it kept; or why neither can be said. A repeat notes the same.
local SERVERS, NO_BALLOT, find = 'fp:q:servers', ('\0'):rep(18), string.find

local function stranger(base)
  local _, header = kept(base)
  return { 'stranger', next_stamp(base), header and header:sub(115, 132) or NO_BALLOT }
end

local function beat()
  local past = 6 + ARGV[4]
  for at = past + 1, #ARGV do redis.call('HDEL', SERVERS, ARGV[at]) end
  redis.call('HSET', SERVERS, ARGV[5], ARGV[6])
  -- Three times a second for each server: for voters it makes no string and no table.
  local headers = redis.call('MGET', unpack(ARGV, 7, past))
  for at = 1, #headers do
    local header = headers[at]
    if not header or #header < 139 or find(header, present, 1, true) ~= 1 then
      headers[at] = answer(stranger, ARGV[6 + at]:sub(1, -2))
    end
  end
  return { 'beats', headers, redis.call('HGETALL', SERVERS) }
end

return answer(beat)
