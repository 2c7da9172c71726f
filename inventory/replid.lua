-- Prefix of the scripts that compare the Redis on which they run (scripts.go).
--
-- replid(): the master_replid of this Redis, or '' if INFO is not available.
local function replid()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
end
