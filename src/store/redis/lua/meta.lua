--! flags: allow-oom
-- Fixes the layout of the data when there is none yet, and the prefix of classic locks (which may be none), and tells them. Repeated it only tells.
-- ARGV 7: number of buckets, version of the layout, prefix of classic locks or nothing
-- Reply: meta, with all three as they are fixed
redis.call('HSETNX', META, 'buckets', ARGV[7])
redis.call('HSETNX', META, 'layout', ARGV[8])
redis.call('HSETNX', META, 'classic', ARGV[9])
return { text(now), 'meta', redis.call('HMGET', META, 'buckets', 'layout', 'classic'), {} }
