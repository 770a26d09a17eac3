--! flags: allow-oom
-- Takes a lease out of the keeping of this attachment, if it is still the one. Repeated it does nothing.
-- ARGV 7: lock name, lease id, attachment
-- Reply: done
open(ARGV[7])
settle()
if L.li == ARGV[8] and L.am == ARGV[9] then
  put('am', nil); put('ar', nil); put('aa', '0')
end
return answer('done')
