--! flags:
-- Asks what became of a request, on behalf of a call that is alive; turns an offer to it into a lease. Repeated it answers the same lease.
-- Takes: lock name, request, attempt, id of the call, lease id, grant id, attachment
-- Reply: granted, queued, timed_out, overtaken, ended, unknown, too_late, left_behind, exhausted
local lock_name, request, attempt, id, lease, grant_id, attachment = ...
open(lock_name)
if not_after < now then return answer('too_late') end
if left_behind() then return answer('left_behind') end
settle()
if is_marked(request, attempt, id) then return answer('overtaken') end
local known = look_up(request, attempt)
if known then return known end
local w = waiter_of(request)
if not w then return answer('unknown') end
local code = unbound(w, attempt)
if code then return answer(code) end
-- Its offer lapsed, or a replica that had another call of it declined it: this call is alive.
if w.standing == 'M' or w.standing == 'D' then
  set_standing(request, 'I')
  promote()
end
if L.oq == request then return grant_offered(request, waiter_of(request), { lease, grant_id, attachment }) end
return queued(w)
