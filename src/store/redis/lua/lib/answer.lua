-- Writes back what changed of the lock, and answers: { time, code, details, effects }.
local function write_back()
  local set, del = {}, {}
  for field in pairs(changed) do
    if L[field] then set[#set + 1] = field; set[#set + 1] = L[field] else del[#del + 1] = field end
  end
  if #set > 0 then redis.call('HSET', K.lock, unpack(set)) end
  if #del > 0 then redis.call('HDEL', K.lock, unpack(del)) end
  write_classic()
  if #set > 0 or L.np then
    local last = math.max(tonumber(L.ex or 0), tonumber(L.la or 0), tonumber(L.en or 0), L.np and now + GONE or 0)
    keep(K.lock, math.max(last + MEMORY - now, 0))
  end
end

local function answer(code, ...)
  write_back()
  return { text(now), code, { ... }, effects }
end
