--! flags: allow-oom
-- Fixes the layout of the data when there is none yet, and the prefix of classic locks (which may be none), and tells them. Repeated it only tells.
-- Takes: number of buckets, version of the layout, prefix of classic locks or nothing
-- Reply: meta, with all three as they are fixed; or denied, with a command that this user may not run on the keys of classic locks. Then nothing is
-- fixed, because the prefix may not be the one that was meant.
local buckets, layout, classic_prefix = ...
if classic_prefix ~= '' then
  for verb, value in pairs({ GET = {}, PTTL = {}, DEL = {}, SET = { 'value' } }) do
    if not redis.acl_check_cmd(verb, classic_prefix, unpack(value)) then return { 'denied', { verb }, {} } end
  end
end
-- A store of partitions is here: to this one that is another layout.
if redis.call('EXISTS', 'fp:q:node') == 1 then return { 'meta', { 'no', 'partitions', classic_prefix }, {} } end
redis.call('HSETNX', META, 'buckets', buckets)
redis.call('HSETNX', META, 'layout', layout)
redis.call('HSETNX', META, 'classic', classic_prefix)
return { 'meta', redis.call('HMGET', META, 'buckets', 'layout', 'classic'), {} }
