-- Begin rebuild: shuts the gate. From then on the gate refuses orders, and the
-- keeper commits the queued ones.
--
-- KEYS  1 sale
-- ARGV  1 the epoch that the keeper saw, 0 for no gate
-- Returns 'OK'. If the gate is of another epoch, the script does nothing, and
-- install.lua finds the difference.
local sale = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if sale[1] and tonumber(sale[2]) == tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'state', 'rebuilding')
end
return 'OK'
