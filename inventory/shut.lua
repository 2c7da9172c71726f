-- Shut: closes the gate for a rebuild. Reserving is refused from here on; what
-- is queued can be drained.
--
-- KEYS  1 sale
-- ARGV  1 fence  2 the epoch the keeper saw, 0 for none
-- Returns 'OK', also where there is no gate or it is of another epoch (nothing
-- to shut: install.lua judges again); error FENCED.
local no = fenced(KEYS[1], ARGV[1])
if no then return no end
if not out_of_epoch(KEYS[1], ARGV[2]) then
  redis.call('HSET', KEYS[1], 'state', 'closed')
end
return 'OK'
