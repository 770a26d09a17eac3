-- Fixes the prefix of classic keys when there is none yet (it may be empty: then there are no classic keys), and tells it. KEYS[2]: where it is kept. ARGV[4]: the prefix. Repeated it only tells.
-- Where this user of Redis may not run a command on such keys, it tells which, and fixes nothing: the prefix may not be the one that was meant.
local prefix = ARGV[4]
if prefix ~= '' then
  for verb, value in pairs({ GET = {}, PTTL = {}, DEL = {}, SET = { 'value' } }) do
    if not redis.acl_check_cmd(verb, prefix, unpack(value)) then return { 'denied', verb } end
  end
end
redis.call('SET', KEYS[2], prefix, 'NX')
return { 'prefix', redis.call('GET', KEYS[2]) }
