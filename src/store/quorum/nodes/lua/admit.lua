-- Replaces the content by what is staged, in one step; it begins a stranger's membership. ARGV: partition, name of the transfer, stamp + ballot + batch + time,
-- highest token, how many records were staged. A repeat finds its batch there.
local function admit()
  local base, name, to, token, count = 'fp:{q' .. ARGV[4] .. '}:', ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
  local votes, header = kept(base)
  if votes then
    if header:sub(81, 114) ~= to:sub(1, 34) then return { 'no', header:sub(97, 114) } end
    local accepted = header:sub(115, 138)
    if not is_before(accepted, to:sub(35, 58)) then return { 'at', accepted } end
  else
    local next = next_stamp(base)
    if next ~= to:sub(1, 16) then return { 'stranger', next } end
  end
  local staged = base .. 't:' .. name
  if redis.call('HLEN', staged) ~= count then
    redis.call('UNLINK', staged)
    return { 'again' }
  end
  redis.call('UNLINK', base .. 'c', base .. 'v')
  if count > 0 then
    redis.call('RENAME', staged, base .. 'c')
    redis.call('PERSIST', base .. 'c')
  end
  redis.call('MSET', base .. 'h', present .. to, base .. 's', token)
  return { 'done' }
end

return answer(admit)
