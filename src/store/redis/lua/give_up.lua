--! flags: allow-oom
-- Ends the wait of a call whose time is over; answers the lease if the request has one. Repeated it answers timed_out again.
-- Takes: lock name, request, attempt, id of the call
-- Reply: timed_out, granted, shared, overtaken, ended, unknown
local lock_name, request, attempt, id = ...
open(lock_name)
settle()
local known = look_up(request, attempt)
if known then return known end
local w = waiter_of(request)
if not w then return answer('unknown') end
local code = unbound(w, attempt)
if code then return answer(code) end
if unbind(w, attempt, id) ~= 'last' then
  unfile(request, w)
  file(request, w)
  return answer('shared')
end
remove_waiter(request, w, 'T')
promote()
return contention('timed_out')
