--! flags: no-writes
-- A step of a scan over the keys of locks. Changes nothing.
-- Takes: cursor, pattern, how many keys to look at
-- Reply: keys, with the next cursor and the keys found
local cursor, pattern, count = ...
local step = redis.call('SCAN', text(cursor), 'MATCH', pattern, 'COUNT', count)
table.insert(step[2], 1, step[1])
return { 'keys', step[2], {} }
