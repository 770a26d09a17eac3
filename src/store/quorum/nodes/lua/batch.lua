-- Writes one batch of a partition. batches.lua has read the headers of all, and writes them when all batches are done.
local KEYS, ARGV, call = KEYS, ARGV, redis.call
local DONE, VALUES_MAX = { 'done' }, 1024 -- unpack fails at some thousands
-- Headers and sequencers by the keys of the headers, as they are after the batches before. What is to be written: keys and headers, and the place of each key there.
local headers, sequencers, written, places = {}, {}, {}, {}

local function write(key, from, to, token, gone, put, past)
  local h, s, v, c = KEYS[key], KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  local header, sequencer = headers[h], sequencers[h]
  if not (header and is_drawn(sequencer) and #header > 138 and header:sub(1, 80) == present) then
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
  -- No key is put and gone. What is gone comes last, because a hash without fields is deleted, and while a Redis Cluster
  -- moves the slot, a script that needs a deleted key again ends half-way.
  for first = put, past - 1, VALUES_MAX do
    call('HSET', c, unpack(ARGV, first, math.min(first + VALUES_MAX, past) - 1))
  end
  for first = gone, put - 1, VALUES_MAX do
    call('HDEL', c, unpack(ARGV, first, math.min(first + VALUES_MAX, put) - 1))
  end
  local place = places[h] or #written + 1
  places[h], written[place], written[place + 1] = place, h, present .. to
  headers[h], sequencers[h] = written[place + 1], token
  return DONE
end
