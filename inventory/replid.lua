-- Prefix of the scripts that check on which Redis they run (scripts.go).
--
-- replid() returns the master_replid of this Redis, or '' if INFO is not available.
local function replid()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
end
