--! flags: allow-oom
-- Declines an offer, on behalf of the replica that it was made to and that has no call of the request. What else is bound to it is another
-- replica's call, or one whose clean-up got lost: its place is skipped, and kept for as long as that of a dropped call. Repeated it does nothing.
-- Takes: lock name, request, attempt
-- Reply: done
local lock_name, request, attempt = ...
open(lock_name)
settle()
local w = waiter_of(request)
if w and L.oq == request and w.replica == me and w.attempt <= attempt then
  unfile(request, w)
  w.standing, w.till = 'D', now + GRACE
  guard(K.dropped, 'zset')
  file(request, w)
  decline(request)
  promote()
end
return answer('done')
