-- Writes a key of Redis, unless a newer holder of the lock has written before.
-- KEYS: the fence of the lock, the key to write (in a cluster both in one slot). ARGV: token, grant id, value.
local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id')
local highest, token = tonumber(fence[1] or 0), tonumber(ARGV[1])
if token < highest or token == highest and fence[2] ~= ARGV[2] then
    return redis.error_reply('STALE ' .. string.format('%.0f', highest))
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'grant_id', ARGV[2])
redis.call('SET', KEYS[2], ARGV[3])
return redis.status_reply('OK')
