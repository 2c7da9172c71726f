-- Terms: brings a changed sale to the gate. A new total is a restock or a cut:
-- the difference goes to what is available, which a cut may take below zero;
-- what was sold is not touched.
--
-- KEYS  1 sale
-- ARGV  1 epoch  2 total  3 per_buyer  4 opens_at ms  5 closes_at ms
-- Returns the units available now; errors NOGATE, EPOCH.
local no = out_of_epoch(KEYS[1], ARGV[1])
if no then return no end

local total = tonumber(redis.call('HGET', KEYS[1], 'total'))
redis.call('HSET', KEYS[1], 'total', ARGV[2], 'per_buyer', ARGV[3], 'opens_at', ARGV[4], 'closes_at', ARGV[5])
local more = tonumber(ARGV[2]) - total
local available = redis.call('HINCRBY', KEYS[1], 'available', more)
if available > 0 and available <= more then cool_down(KEYS[1]) end
return available
