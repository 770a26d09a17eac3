-- Tells the node its cluster, or a newer list of it. ARGV[1]: cluster, number of the list (16 and 6 bytes), and the rest, which only servers read.
-- A node takes one list of a number, so that of two replacements at a time one finds no majority.
local mark = redis.call('GET', 'fp:q:node')
if mark then
  if mark:sub(1, 16) ~= ARGV[1]:sub(1, 16) then return { 'other', mark:sub(1, 16) } end
  local present, new = struct.unpack('>I6', mark, 17), struct.unpack('>I6', ARGV[1], 17)
  if mark == ARGV[1] then return { 'marked' } end
  if present >= new then return { 'list', mark } end
end
if redis.call('EXISTS', 'fp:meta') == 1 then
  return { 'broken', 'locks of an earlier version of Fencepost are here (fp:meta), which this version cannot read: see fencepost doctor' }
end
redis.call('SET', 'fp:q:node', ARGV[1])
return { 'marked' }
