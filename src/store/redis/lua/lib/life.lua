-- Whether Redis is in this life (ServerInfo::incarnation). Connections outlive one: the replication id changes under them when the first replica comes.
local present
local function is_in(life)
  if not present then
    local said = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
    local run, replication = said:match('\nrun_id:([^\r\n]*)') or '', said:match('\nmaster_replid:([^\r\n]*)') or ''
    present = redis.sha1hex(run .. '\n' .. replication):sub(1, 32)
  end
  return present == life
end
