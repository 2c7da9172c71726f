-- Prefix of the scripts that ask which Redis they run on (scripts.go).
--
-- replid(): the master_replid of this Redis, '' where INFO is not to be had.
local function replid()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
end
