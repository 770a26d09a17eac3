-- A step at a classic key, which others set with SET key value NX PX. KEYS: h, s, v, k:<key>, key. ARGV: the leader's ballot + number of the step, look | hold | drop, and for hold: value, TTL
-- in ms. Beside the key a copy is kept, {step, value}: a key that is equal to it is ours, any other, of whatever type, is a classic client's. A repeat does the same.
-- Only the leader that the node has promised may do it, and no step is taken that is older than the copy: it comes late, over a connection that was lost.
local function classic()
  local h, s, v, name, key = unpack(KEYS, 2)
  local step, verb = ARGV[4], ARGV[5]
  local votes, header = kept(h, s)
  if not votes then return { 'stranger', next_stamp(v) } end
  local promised = header:sub(97, 114)
  if promised ~= step:sub(1, 18) then return { 'no', promised } end
  local copy, found = redis.call('GET', name), redis.pcall('GET', key)
  local at = copy and copy:sub(1, 24)
  if at and at:sub(1, 18) == promised and is_before(step, at) then return { 'at', at } end
  if found and not (copy and found == copy:sub(25)) then return { 'theirs', tostring(redis.call('PTTL', key)) } end
  if verb == 'hold' then
    redis.call('SET', key, ARGV[6], 'PX', ARGV[7])
    redis.call('SET', name, step .. ARGV[6], 'PX', ARGV[7])
    return { 'ours' }
  end
  if verb == 'drop' then redis.call('DEL', key, name) end
  return { found and verb == 'look' and 'ours' or 'free' }
end

return answer(classic)
