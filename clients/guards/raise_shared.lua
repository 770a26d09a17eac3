-- The first step of a reader in Redis, once after its grant: raises the shared token of a fence, or ends with the error
-- STALE and the highest token. The grant is compared only for a lock that was downgraded.
-- KEYS[1]: the fence of the lock. ARGV[1]: token. ARGV[2]: grant id.
local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id', 'shared')
local writer, shared, token = tonumber(fence[1] or 0), tonumber(fence[3] or 0), tonumber(ARGV[1])
if not (token > writer or token == writer and fence[2] == ARGV[2]) then
    return redis.error_reply('STALE ' .. string.format('%.0f', math.max(writer, shared)))
end
if token > shared then
    redis.call('HSET', KEYS[1], 'shared', ARGV[1])
end
