--! flags: allow-oom
-- Has the events of a bucket told to this replica for a while. Repeated it only moves the end of that.
-- Takes: for how long, in microseconds
-- Reply: done
local left = { me .. ':' .. text(now + (...)) }
for replica, till in (bucket[3] or ''):gmatch('(%x+):(%d+)') do
  if replica ~= me and now < tonumber(till) then left[#left + 1] = replica .. ':' .. till end
end
redis.call('HSET', K.bucket, 'watched', table.concat(left, ' '), 'n', (bucket[4] or '0'):match('^%d+'))
return { 'done', {}, {} }
