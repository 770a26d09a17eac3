-- Replaces the content by what is staged, in one step; it begins a stranger's membership. KEYS: h, s, v, c, t:<name of the transfer>. ARGV: stamp + ballot + batch + time,
-- highest token, how many records were staged. A repeat finds its batch there.
local function admit()
  local h, s, v, c, staged = unpack(KEYS, 2)
  local to, token, count = ARGV[4], ARGV[5], tonumber(ARGV[6])
  local votes, header = kept(h, s)
  if votes then
    if header:sub(81, 114) ~= to:sub(1, 34) then return { 'no', header:sub(97, 114) } end
    local accepted = header:sub(115, 138)
    if not is_before(accepted, to:sub(35, 58)) then return { 'at', accepted } end
  else
    local next = next_stamp(v)
    if next ~= to:sub(1, 16) then return { 'stranger', next } end
  end
  if redis.call('HLEN', staged) ~= count then
    redis.call('UNLINK', staged)
    return { 'again' }
  end
  -- What is deleted is not touched again: while a Redis Cluster moves the slot, a missing key ends the script half-way.
  if count > 0 then
    redis.call('RENAME', staged, c)
    redis.call('PERSIST', c)
  else
    redis.call('UNLINK', c)
  end
  redis.call('MSET', h, present .. to, s, token)
  redis.call('UNLINK', v)
  return { 'done' }
end

return answer(admit)
