-- Writes back what changed of the lock, and answers: { code, details, effects }.
local function write_back()
  if next(changed) then
    local values, count = { MARK }, 1
    for place = 2, FIELDS_END do
      values[place] = L[FIELDS[place]]
      if values[place] ~= nil then count = place end
    end
    local last = math.max(L.ex or 0, L.la or 0, L.za or 0, L.np and now + GONE or 0)
    if count > 1 then store_lock(K.lock, values, last, count) else redis.call('DEL', K.lock) end
  elseif L.np then keep(K.lock, GONE + MEMORY) end
  write_classic()
end

local function answer(code, ...)
  write_back()
  return { code, { ... }, effects }
end
