-- Writes back what changed of the lock, and answers: { code, details, effects }.
local function write_back()
  if next(changed) then
    local last = math.max(L.ex or 0, L.la or 0, L.za or 0, L.np and now + GONE or 0)
    if next(L) then redis.call('SET', K.lock, text_of(L), 'PX', ttl_text(last))
    else redis.call('DEL', K.lock) end
  elseif L.np then keep(K.lock, GONE + MEMORY) end
  write_classic()
end

local function answer(code, ...)
  write_back()
  return { code, { ... }, effects }
end
