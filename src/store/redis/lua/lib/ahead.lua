-- How many stand before a waiter, at most: the distance of its place from the first one that is taken.
local function first_place()
  local first
  for _, replica in ipairs(replicas_in_line()) do
    local place = tonumber(redis.call('ZRANGE', line(replica), 0, 0, 'WITHSCORES')[2])
    if place and (not first or place < first) then first = place end
  end
  return first and text(first) or ''
end

local function queued(w) return answer('queued', text(w.place), first_place()) end
