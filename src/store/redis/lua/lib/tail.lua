-- The commands, each by itself: where one fails, the others go on, and what they did stays done.
local quick = {}
local function run(command, ...)
  local quickly = quick[command]
  if quickly == nil then quickly = quick_path(command) or false; quick[command] = quickly end
  local done = quickly and quickly(...)
  if done then return done end
  local whole = wholly(command, ...)
  return cmsgpack.pack(whole[1], whole[2], whole[3])
end

local replies = { now }
for place = 2, #ARGV do
  local fine, reply = pcall(run, cmsgpack.unpack(ARGV[place]))
  if not fine then reply = cmsgpack.pack('broken', { type(reply) == 'table' and reply.err or tostring(reply) }, {}) end
  replies[place] = reply
end
return replies
