-- A further transmission of a request that is known.
local function acquire_held(request, wish)
  if L.fg ~= wish.fingerprint then return answer('other_terms') end
  local it = holder_binding()
  if not bind(it, request, wish.attempt, wish.calls) then return answer('overtaken') end
  put_binding(it)
  -- It was cut short because nobody could have heard of it. Now somebody does.
  if L.uh then extend(L.tt) end
  wake_overtaken()
  return granted()
end

local function acquire_queued(request, w, wish, wait, candidate)
  if w.fingerprint ~= wish.fingerprint then return answer('other_terms') end
  if wish.attempt < w.attempt then return answer('overtaken') end
  local standing, same = w.standing, wish.attempt == w.attempt
  unfile(request, w)
  bind(w, request, wish.attempt, wish.calls)
  file(request, w)
  hear_of_me()
  if standing == 'M' or standing == 'D' then
    set_standing(request, 'I')
    promote()
  end
  wake_overtaken()
  w = waiter_of(request)
  if L.oq == request then return grant_offered(request, w, candidate) end
  if wait then return queued(w) end
  -- A try by one that waits is the end of the wait; calls of the same number are to learn of it now.
  if same and standing ~= 'D' then look_again(me, request, wish.attempt) end
  remove_waiter(request, w, 'T')
  promote()
  return contention('timed_out')
end
