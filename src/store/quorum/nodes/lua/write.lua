-- Writes batches. KEYS and ARGV: as in batches.lua.
return write_batches(2, 4, {})
