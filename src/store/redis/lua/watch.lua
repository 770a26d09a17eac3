--! flags: allow-oom
-- Has the events of a bucket told to this replica for a while. Repeated it only moves the end of that.
-- Takes: for how long, in microseconds
-- Reply: goes_on, begins
local left, reply = { hex(me) .. ':' .. text(now + (...)) }, 'begins'
for replica, till in (bucket[2] or ''):gmatch('(%x+):(%d+)') do
  if now < tonumber(till) then
    if replica == hex(me) then reply = 'goes_on' else left[#left + 1] = replica .. ':' .. till end
  end
end
redis.call('HSET', K.bucket, 'watched', table.concat(left, ' '))
-- Quick acquires, which tell nobody, do not go by a counter without its incarnation.
local counter = redis.call('GET', K.counter)
if counter then redis.call('SET', K.counter, counter:sub(1, 8)) end
return { reply, {}, {} }
