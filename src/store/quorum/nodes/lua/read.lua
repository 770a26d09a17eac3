-- Reads a piece of what the node keeps. KEYS: h, s, v, c. ARGV: stamp + ballot, where the piece begins (of HSCAN; '0' at first), about how many records.
-- A stranger shows what it kept to whoever names its next membership.
local function read()
  local h, s, v, c = unpack(KEYS, 2)
  local reader = ARGV[4]
  local votes, header, sequencer = kept(h, s)
  if votes then
    if header:sub(81, 114) ~= reader then return { 'no', header:sub(97, 114) } end
  else
    local next = next_stamp(v)
    if next ~= reader:sub(1, 16) then return { 'stranger', next } end
  end
  local piece = redis.call('HSCAN', c, ARGV[5], 'COUNT', ARGV[6])
  local batch, time = ('\0'):rep(24), '0'
  if header then batch, time = header:sub(115, 138), header:sub(139) end
  return { 'piece', batch, time, sequencer, piece[1], piece[2] }
end

return answer(read)
