-- Terms: brings a changed sale to the gate. A new total is a restock or a cut:
-- the difference goes to what is available, which a cut may take below zero;
-- what was sold is not touched.
--
-- KEYS  1 sale
-- ARGV  1 fence  2 epoch  3 total  4 per_buyer  5 opens_at ms  6 closes_at ms
-- Returns the units available now; errors FENCED, NOGATE, EPOCH.
local no = fenced(KEYS[1], ARGV[1]) or out_of_epoch(KEYS[1], ARGV[2])
if no then return no end

local total = tonumber(redis.call('HGET', KEYS[1], 'total'))
redis.call('HSET', KEYS[1], 'total', ARGV[3], 'per_buyer', ARGV[4], 'opens_at', ARGV[5], 'closes_at', ARGV[6])
return redis.call('HINCRBY', KEYS[1], 'available', tonumber(ARGV[3]) - total)
