-- Asks for promises: sections of many partitions. ARGV, for each: partition, ballot. Repeated, it promises the same.
local function promise(base, ballot)
  local votes, header = kept(base)
  if not votes then return { 'stranger', next_stamp(base) } end
  local promised = header:sub(97, 114)
  if ballot ~= promised then
    if is_before(ballot, promised) then return { 'no', promised } end
    redis.call('SET', base .. 'h', header:sub(1, 96) .. ballot .. header:sub(115))
  end
  return { 'promised', header:sub(81, 96), header:sub(115, 138) }
end

local answers = {}
for at = 4, #ARGV, 2 do
  answers[#answers + 1] = answer(promise, 'fp:{q' .. ARGV[at] .. '}:', ARGV[at + 1])
end
return answers
