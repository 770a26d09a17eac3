--! flags: allow-oom
-- Gives a lease back and offers the lock to whoever is next. If that is the call that the sender claims for, it has the lock at once: a lease in
-- place of its place in line. Repeated it answers how the lease ended.
-- Takes: lock name, lease id; and of a call that waits at the sender, if one does: request, attempt, id of the call, lease id, grant id, attachment
-- Reply: released, handed_over (the reply of claim), gone
local lock_name, lease, request, attempt, id, lease_next, grant_id, attachment = ...
open(lock_name)
settle()
if L.li ~= lease then return gone(lease) end
end_lease('R', now)
promote()
local w = request and L.oq == request and waiter_of(request)
if not w or w.replica ~= me or unbound(w, attempt) or is_marked(request, attempt, id) or not_after < now or left_behind() then
  return answer('released')
end
-- The hint to claim, which comes last of what the release set off.
effects[#effects] = nil
local claimed = grant_offered(request, w, { lease_next, grant_id, attachment })
return { 'handed_over', { claimed[1], claimed[2] }, effects }
