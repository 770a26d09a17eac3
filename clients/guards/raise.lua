-- The guard for Redis: raises the fence of a lock, or ends with the error STALE and the highest token.
-- Redis has no transaction that can be rolled back, so the write has to be in the same script: append the script that
-- writes to this text. Its own keys and arguments follow those of the guard.
-- KEYS[1]: the fence of the lock, in a cluster in the same slot as the data. ARGV[1]: token. ARGV[2]: grant id.
do
    local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id', 'shared')
    local writer, shared, token = tonumber(fence[1] or 0), tonumber(fence[3] or 0), tonumber(ARGV[1])
    if not (token > shared and (token > writer or token == writer and fence[2] == ARGV[2])) then
        return redis.error_reply('STALE ' .. string.format('%.0f', math.max(writer, shared)))
    end
    redis.call('HSET', KEYS[1], 'token', ARGV[1], 'grant_id', ARGV[2])
end
