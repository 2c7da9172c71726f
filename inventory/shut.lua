-- Shut: closes the gate for a rebuild. New orders are refused from here on, and the
-- keeper carries over what is queued.
--
-- KEYS  1 sale
-- ARGV  1 the epoch that the keeper saw, 0 for no gate
-- Returns 'OK', also if the gate is of another epoch. Then nothing is done, and
-- install.lua finds the difference.
local sale = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if sale[1] and tonumber(sale[2]) == tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'state', 'rebuilding')
end
return 'OK'
