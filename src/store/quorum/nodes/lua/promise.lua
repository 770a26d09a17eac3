-- Asks for promises: sections of many partitions. KEYS, for each: h, s, v. ARGV, for each: its ballot. Repeated, it promises the same.
local function promise(h, s, v, ballot)
  local votes, header = kept(h, s)
  if not votes then return { 'stranger', next_stamp(v) } end
  local promised = header:sub(97, 114)
  if ballot ~= promised then
    if is_before(ballot, promised) then return { 'no', promised } end
    redis.call('SET', h, header:sub(1, 96) .. ballot .. header:sub(115))
  end
  return { 'promised', header:sub(81, 96), header:sub(115, 138) }
end

local answers = {}
for at = 4, #ARGV do
  local first = 3 * at - 10
  answers[at - 3] = answer(promise, KEYS[first], KEYS[first + 1], KEYS[first + 2], ARGV[at])
end
return answers
