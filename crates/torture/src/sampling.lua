-- What this node keeps of each of ARGV[1] partitions. A header: incarnation (80 bytes), stamp (16), promised ballot (18),
-- last batch (24), and the partition's time.
local function value_of(section, name)
  local text = redis.call('INFO', section)
  local place = text:find('\n' .. name .. ':', 1, true) + #name + 2
  return text:sub(place, place + 39)
end
local present = value_of('server', 'run_id') .. value_of('replication', 'master_replid')

local answers = {}
for partition = 0, tonumber(ARGV[1]) - 1 do
  local base = '{fp}:q' .. partition .. ':'
  local header, sequencer = unpack(redis.call('MGET', base .. 'h', base .. 's'))
  if header then
    local records, hashes = redis.call('HGETALL', base .. 'c'), {}
    for at = 1, #records, 2 do
      hashes[#hashes + 1] = redis.sha1hex(#records[at] .. ' ' .. records[at] .. records[at + 1])
    end
    table.sort(hashes)
    local batch = header:sub(115, 138):gsub('.', function(byte) return ('%02x'):format(byte:byte()) end)
    local content = header:sub(139) .. ' ' .. (sequencer or '-') .. ' ' .. #hashes .. ' ' .. redis.sha1hex(table.concat(hashes))
    answers[#answers + 1] = { partition, header:sub(1, 80) == present and 1 or 0, batch, content }
  end
end
return answers
