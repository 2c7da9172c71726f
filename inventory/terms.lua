-- Terms applies the changed terms of a sale to the gate. If the total changes, the
-- available units change by the same number. After a cut, they may be below 0. Sold units
-- stay sold.
--
-- KEYS  1 sale
-- ARGV  1 epoch  2 total  3 per_buyer  4 opens_at ms  5 closes_at ms
-- Returns the available units; errors NOGATE, EPOCH.
local refusal = out_of_epoch(KEYS[1], ARGV[1])
if refusal then return refusal end

local total = tonumber(redis.call('HGET', KEYS[1], 'total'))
redis.call('HSET', KEYS[1], 'total', ARGV[2], 'per_buyer', ARGV[3], 'opens_at', ARGV[4], 'closes_at', ARGV[5])
local more = tonumber(ARGV[2]) - total
local available = redis.call('HINCRBY', KEYS[1], 'available', more)
if available > 0 and available <= more then cool_down(KEYS[1]) end
return available
