-- What every request to partitions begins with. KEYS[1]: what the node knows of its cluster. ARGV[1]: the server's cluster and the number of its list (16 and 6 bytes). ARGV[2]: a stamp that was never
-- used (16 bytes). ARGV[3]: the run id of Redis, from the handshake (40 bytes). A partition's keys: h header {incarnation (80 bytes), stamp (16), promised ballot (18), last batch (24), time (text)}, s sequencer,
-- c content, v {incarnation, stamp of the next membership}, t:<name> what is staged. KEYS has every key that a script touches: all have one hash tag, and so one slot.
local mark = redis.call('GET', KEYS[1])
if not mark then return { 'unmarked' } end
if mark:sub(1, 22) ~= ARGV[1] then
  if mark:sub(1, 16) ~= ARGV[1]:sub(1, 16) then return { 'other', mark:sub(1, 16) } end
  if struct.unpack('>I6', mark, 17) > struct.unpack('>I6', ARGV[1], 17) then return { 'list', mark } end
  return { 'unmarked' }
end

-- The node's incarnation. The replication id is asked for each time, because it changes under live connections; a connection does not outlive a run.
-- Plain searches: a pattern over the whole text costs more than the rest of a write.
local replication = redis.call('INFO', 'replication')
local place = replication:find('\nmaster_replid:', 1, true) + 15
local present = ARGV[3] .. replication:sub(place, place + 39)
