-- Which transmission of a request counts: the newest attempt, all calls of it. A call has an id of 8 bytes; `calls` is their ids in a row.
local overtaken_call, MANY = nil, '\0\0\0\0\0\0\0\0'

local function place_of(calls, id)
  for at = 1, #calls, #id do if calls:sub(at, at + #id - 1) == id then return at end end
end

-- Binds a call to `it` (a lease's or waiter's attempt, calls, replica). False if it is overtaken.
local function bind(it, request, attempt, id)
  if attempt < it.attempt then return false end
  if attempt > it.attempt then
    overtaken_call = { it.replica, request, it.attempt }
    it.attempt, it.calls = attempt, id
  elseif not place_of(it.calls, id) then
    -- Beyond the bound it is only known that there are more: MANY stays, whatever is taken away.
    it.calls = (#it.calls < CALLS_MAX * #id and it.calls or MANY) .. id
  end
  it.replica = me
  return true
end

-- Takes a call away: 'last' if no other is bound, 'not_last' if one is, nothing if it was not bound itself.
local function unbind(it, attempt, id)
  local at = attempt == it.attempt and id ~= MANY and place_of(it.calls, id)
  if not at then return nil end
  it.calls = it.calls:sub(1, at - 1) .. it.calls:sub(at + #id)
  return it.calls == '' and 'last' or 'not_last'
end

-- What to answer a call that is not bound, or nothing.
local function unbound(it, attempt)
  if it.attempt < attempt then return 'unknown' end
  if attempt < it.attempt or it.calls == '' then return 'overtaken' end
end

local function wake_overtaken() if overtaken_call then look_again(unpack(overtaken_call)) end end

local function holder_binding() return { attempt = L.at, calls = L.ca, replica = L.rp } end
local function put_binding(it) put('at', it.attempt); put('ca', it.calls); put('rp', it.replica) end
