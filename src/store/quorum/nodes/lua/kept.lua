-- Whether one ballot, or batch, is before another one. As numbers: Lua compares strings as the locale does.
local function is_before(one, other)
  for at = 1, #one, 6 do
    local left, right = struct.unpack('>I6', one, at), struct.unpack('>I6', other, at)
    if left ~= right then return left < right end
  end
  return false
end

-- Whether this can be a sequencer: the last token, below 2^53.
local function is_drawn(text) return text == '0' or text and text:find('^[1-9]%d*$') and tonumber(text) < 2^53 end

-- Whether the node votes in a partition, its header, and the sequencer, by the keys of both. Where somebody has damaged them, an error.
local function kept(h, s)
  local header, sequencer = unpack(redis.call('MGET', h, s))
  if header and is_drawn(sequencer) and #header > 138 then return header:sub(1, 80) == present, header, sequencer end
  header, sequencer = redis.call('GET', h), redis.call('GET', s) -- to MGET, a key of another type is missing
  if not header then return false, false, is_drawn(sequencer) and sequencer or '0' end
  if #header < 139 then error(h .. ' is damaged', 0) end
  -- Without its sequencer, which somebody deleted or spoilt, a member does not know which tokens were drawn. It is a stranger from here on, also to beats, which look at headers only: as after a restart with an older sequencer.
  if header:sub(1, 80) == present then
    header = ('\0'):rep(80) .. header:sub(81)
    redis.call('SET', h, header)
  end
  return false, header, '0'
end

-- The stamp of a stranger's next membership, made if there is none of this incarnation.
local function next_stamp(v)
  local next = redis.call('GET', v)
  if next and #next == 96 and next:sub(1, 80) == present then return next:sub(81) end
  redis.call('SET', v, present .. ARGV[2])
  return ARGV[2]
end

-- The answer of a function about one partition. An error is the answer of that partition alone.
local function answer(...)
  local fine, answer = pcall(...)
  return fine and answer or { 'broken', type(answer) == 'table' and answer.err or tostring(answer) }
end
