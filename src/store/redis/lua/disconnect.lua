--! flags: allow-oom
-- Takes a lease back because its stream ended, if this attachment still keeps it. Repeated it does nothing.
-- ARGV 7: lock name, lease id, attachment
-- Reply: done
open(ARGV[7])
settle()
if L.li == ARGV[8] and L.am == ARGV[9] then
  end_lease('V', now, 'stream ended')
  promote()
end
return answer('done')
