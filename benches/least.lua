#!lua
-- The least that a fenced lock can do, in the form in which Fencepost sends its commands: a token that rises, and a lease that only its holder
-- gives back. Nobody waits for it, nothing is remembered of requests, nobody is told of anything, and a Redis that forgot goes unnoticed.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

local function run(command, key, counter, lease)
  local found = redis.call('GET', key)
  if command == 'give back' then
    if not found or found:sub(10) ~= lease then return 'gone' end
    redis.call('SET', key, 'F' .. found:sub(2, 9), 'PX', 15000)
    return 'given back'
  end
  if found and found:sub(1, 1) == 'H' then return 'held' end
  local token = struct.pack('<d', now)
  local before = redis.call('SET', counter, token, 'GET')
  if before and struct.unpack('<d', before) >= now then
    token = struct.pack('<d', struct.unpack('<d', before) + 1)
    redis.call('SET', counter, token)
  end
  redis.call('SET', key, 'H' .. token .. lease, 'PX', 45000)
  return token
end

local replies = { now }
for place = 2, #ARGV do
  replies[place] = run(cmsgpack.unpack(ARGV[place]))
end
return replies
