-- The queue of a lock that somebody has (so that it is on offer to nobody), where it is plain: there is none, or nobody was dropped, nothing is
-- marked, and all that stand in line came through this replica.
local lease_end, next_place

-- Reads it. False if it is not so.
local function plain_queue(base, name, found)
  local holder = struct.unpack('<H', found, lease_at + HOLDER_AT)
  local metadata = struct.unpack('<I4', found, lease_at + HOLDER_AT + 2 + holder)
  local calls_at = lease_at + HOLDER_AT + 6 + holder + metadata
  lease_end, next_place = calls_at + found:byte(calls_at), 0
  if not is_queued() then return true end
  local marks, in_line, _
  _, _, next_place, marks, in_line = struct.unpack(QUEUE, found, lease_end + 1)
  return next_place >= 0 and marks == -1 and in_line == me and redis.call('EXISTS', base .. 'd:' .. name) == 0
end

local function queue_of(places) return struct.pack(QUEUE, NONE, -1, places, -1, #me, me) end
