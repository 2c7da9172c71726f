-- Begin rebuild shuts the gate. A shut gate refuses orders, while the keeper still
-- commits the queued ones. If the gate has another epoch, the script does nothing, and
-- install.lua finds the difference later.
--
-- KEYS  1 sale
-- ARGV  1 the epoch that the keeper has read, 0 for no gate
-- Returns 'OK'.
local sale = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if sale[1] and tonumber(sale[2]) == tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'state', 'rebuilding')
end
return 'OK'
