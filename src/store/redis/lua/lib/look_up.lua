-- What is settled about a request already.

-- The command of a call that was dropped, when the clean-up came first.
local function is_marked(request, attempt, id)
  return L.mk and redis.call('ZSCORE', K.marks, request .. id .. text(attempt))
end

-- A cleanup that runs twice may leave it twice: it holds for as long as the later one says.
local function leave_mark(request, attempt, id)
  redis.call('ZADD', K.marks, 'GT', text(not_after), request .. id .. text(attempt))
  keep(K.marks, WINDOW)
  put('mk', 1)
end

-- What is settled about a request already: its end, or its lease.
local function look_up(request, attempt)
  local past = past_of(request)
  if past and past[2] == 'T' then return contention('timed_out') end
  if past and past[2] ~= 'F' then return answer('ended') end
  if L.rq ~= request then return nil end
  local code = unbound(holder_binding(), attempt)
  if code then return answer(code) end
  return granted()
end
