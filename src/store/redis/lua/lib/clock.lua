-- Redis' time in microseconds, read once: in 7.0 it moves while a script runs.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
