--! flags: allow-oom
-- Fixes the layout of the data when there is none yet, and the prefix of classic locks (which may be none), and tells them. Repeated it only tells.
-- Takes: number of buckets, version of the layout, prefix of classic locks or nothing
-- Reply: meta, with all three as they are fixed
local buckets, layout, classic_prefix = ...
redis.call('HSETNX', META, 'buckets', buckets)
redis.call('HSETNX', META, 'layout', layout)
redis.call('HSETNX', META, 'classic', classic_prefix)
return { 'meta', redis.call('HMGET', META, 'buckets', 'layout', 'classic'), {} }
