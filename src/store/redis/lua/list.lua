--! flags: no-writes
-- A step of a scan over the keys of locks. Changes nothing.
-- ARGV 7: cursor, pattern, how many keys to look at
-- Reply: keys, with the next cursor and the keys found
local step = redis.call('SCAN', ARGV[7], 'MATCH', ARGV[8], 'COUNT', ARGV[9])
table.insert(step[2], 1, step[1])
return { text(now), 'keys', step[2], {} }
