--! flags: allow-oom
-- Cleans up after a call that was dropped, unless a newer attempt is bound. A call that is not bound leaves a mark until not_after: its own
-- command may have been overtaken. Repeated it finds the call unbound, and does nothing.
-- Takes: lock name, request, attempt, id of the call
-- Reply: done
local lock_name, request, attempt, id = ...
open(lock_name)
guard(K.marks, 'zset')
settle()
local it, unbound_as = nil, nil
if L.rq == request then
  it = holder_binding()
  unbound_as = unbind(it, attempt, id)
  put_binding(it)
  -- Not if its holder has acted on it: it reckons with the time that a renewal promised.
  if unbound_as == 'last' and not L.hd then put('ex', math.min(L.ex, now + GRACE)); put('uh', 1) end
else
  it = waiter_of(request)
  if it then
    unbound_as = unbind(it, attempt, id)
    unfile(request, it)
    if unbound_as == 'last' then it.standing, it.till = 'D', now + GRACE end
    file(request, it)
    if unbound_as == 'last' then
      decline(request)
      promote()
    end
  end
end
local may_come
if it then may_come = not unbound_as and it.attempt <= attempt
else
  local past = past_of(request)
  may_come = not past or past[2] == 'F'
end
if may_come and now <= not_after then leave_mark(request, attempt, id) end
return answer('done')
