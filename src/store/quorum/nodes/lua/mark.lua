-- Tells the node its cluster, or a newer list of it. KEYS[1]: where that is kept. ARGV[1]: cluster, number of the list (16 and 6 bytes), and the rest, which only servers read.
-- A node takes one list of a number, so that of two replacements at a time one finds no majority.
local mark = redis.call('GET', KEYS[1])
if mark then
  if mark:sub(1, 16) ~= ARGV[1]:sub(1, 16) then return { 'other', mark:sub(1, 16) } end
  local present, new = struct.unpack('>I6', mark, 17), struct.unpack('>I6', ARGV[1], 17)
  if mark == ARGV[1] then return { 'marked' } end
  if present >= new then return { 'list', mark } end
end
redis.call('SET', KEYS[1], ARGV[1])
return { 'marked' }
