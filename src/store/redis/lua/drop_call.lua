--! flags: allow-oom
-- Cleans up after a call that was dropped, unless a newer attempt is bound. Finding nothing, it leaves a mark until not_after: the call's own
-- command may have been overtaken. Run again it finds the call unbound and does nothing, but where other calls of the same attempt are
-- bound (one through this replica, or several), it takes one of those away: so whoever does not know whether it ran does not run it again.
-- Takes: lock name, request, attempt
-- Reply: done
local lock_name, request, attempt = ...
open(lock_name)
guard(K.marks, 'zset')
settle()
local w = waiter_of(request)
if L.rq == request then
  local it = holder_binding()
  if attempt <= it.attempt then
    local last = unbind_dropped(it, attempt)
    put_binding(it)
    -- Not if its holder has acted on it: it reckons with the time that a renewal promised.
    if last and not L.hd then put('ex', math.min(L.ex, now + GRACE)); put('uh', 1) end
    return answer('done')
  end
elseif w then
  if attempt <= w.attempt then
    local last = unbind_dropped(w, attempt)
    unfile(request, w)
    if last then w.standing, w.till = 'D', now + GRACE end
    file(request, w)
    if last then
      decline(request)
      promote()
    end
    return answer('done')
  end
else
  local past = past_of(request)
  if past and past[2] ~= 'F' then return answer('done') end
end
if now <= not_after then leave_mark(request, attempt) end
return answer('done')
