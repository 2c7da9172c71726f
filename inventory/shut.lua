-- Shut: closes the gate for a rebuild. Reserving is refused from here on; what
-- is queued can be drained, or is dropped with the gate's last word on it.
--
-- KEYS  1 sale  2 queue
-- ARGV  1 the epoch the keeper saw, 0 for none  2 '1' to drop what is queued
-- Returns 'OK', also where the gate is of another epoch (nothing is done then:
-- install.lua judges again).
local sale = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if tonumber(sale[2] or '0') ~= tonumber(ARGV[1]) then return 'OK' end
if sale[1] then redis.call('HSET', KEYS[1], 'state', 'rebuilding') end
if ARGV[2] == '1' then redis.call('UNLINK', KEYS[2]) end
return 'OK'
