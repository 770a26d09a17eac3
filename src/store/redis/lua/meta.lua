--! flags:
-- Fixes the layout of the data when there is none yet, and tells it. Repeated it only tells.
-- ARGV 7: number of buckets, version of the layout
-- Reply: meta, with both as they are fixed
redis.call('HSETNX', META, 'buckets', ARGV[7])
redis.call('HSETNX', META, 'layout', ARGV[8])
return { text(now), 'meta', redis.call('HMGET', META, 'buckets', 'layout'), {} }
