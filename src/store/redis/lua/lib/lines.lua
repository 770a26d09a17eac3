-- The lines of those who wait: one for each replica, by place, and one of those who missed an offer.
local function line(replica) return base .. 'q:' .. hex(replica) .. ':' .. name end
local function missed(replica) return base .. 'm:' .. hex(replica) .. ':' .. name end

-- The replicas with waiters in line, or beside it.
local function replicas_in_line()
  local found = {}
  for at = 1, #(L.rs or ''), 16 do found[#found + 1] = L.rs:sub(at, at + 15) end
  return found
end

local function set_in_line(replica, is)
  local all = is and replica or ''
  for _, other in ipairs(replicas_in_line()) do if other ~= replica then all = all .. other end end
  put('rs', all ~= '' and all or nil)
end
