-- The second step of a reader in Redis: append the script that does its work, as to raise.lua. Ends with the error
-- STALE and the highest token if a later writer has raised the fence, or if the reader itself never has: then that
-- token is lower than its own.
-- KEYS[1]: the fence of the lock. ARGV[1]: token. ARGV[2]: grant id.
do
    local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id', 'shared')
    local writer, shared, token = tonumber(fence[1] or 0), tonumber(fence[3] or 0), tonumber(ARGV[1])
    if not (token <= shared and (token > writer or token == writer and fence[2] == ARGV[2])) then
        return redis.error_reply('STALE ' .. string.format('%.0f', math.max(writer, shared)))
    end
end
