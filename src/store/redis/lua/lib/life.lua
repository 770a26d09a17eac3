-- Whether Redis is in this life (ServerInfo::incarnation). Connections outlive one: the replication id changes under them when the first replica comes.
local function is_in(life)
  local said = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
  local run, replication = said:match('\nrun_id:([^\r\n]*)') or '', said:match('\nmaster_replid:([^\r\n]*)') or ''
  return redis.sha1hex(run .. '\n' .. replication):sub(1, 32) == life
end
