-- Which transmission of a request counts: the newest, and those of the same number beside it.
local overtaken_call = nil

-- Binds a call to `it` (a lease's or waiter's attempt, calls, replica). False if it is overtaken.
local function bind(it, request, attempt)
  if attempt < it.attempt then return false end
  if attempt == it.attempt then it.calls = it.calls + 1
  else
    overtaken_call = { it.replica, request, it.attempt }
    it.attempt, it.calls = attempt, 1
  end
  it.replica = me
  return true
end

-- Takes one call away. True if that was the last one of the attempt that is bound.
local function unbind(it, attempt)
  if attempt ~= it.attempt or it.calls == 0 then return false end
  it.calls = it.calls - 1
  return it.calls == 0
end

-- The same for a call that was dropped, and had come through this replica. Where one call is left and it came through another, the dropped one was
-- never bound (its command was refused or lost): the one that is left may have heard of its lease.
local function unbind_dropped(it, attempt)
  if it.calls == 1 and it.replica ~= me then return false end
  return unbind(it, attempt)
end

-- What to answer a call that is not bound, or nothing.
local function unbound(it, attempt)
  if it.attempt < attempt then return 'unknown' end
  if attempt < it.attempt or it.calls == 0 then return 'overtaken' end
end

local function wake_overtaken() if overtaken_call then look_again(unpack(overtaken_call)) end end

local function holder_binding() return { attempt = L.at, calls = L.ca, replica = L.rp } end
local function put_binding(it) put('at', it.attempt); put('ca', it.calls); put('rp', it.replica) end
