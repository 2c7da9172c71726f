-- Release the units of an order if it still has a hold.
--
-- KEYS  1 stock  2 buyers  3 holds
-- ARGV  1 order id
-- Returns the units released, which is 0 without a hold.
local hold = redis.call('HGET', KEYS[3], ARGV[1])
if not hold then return 0 end
local quantity, buyer = string.match(hold, '^(%d+) (.*)$')
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('INCRBY', KEYS[1], quantity)
redis.call('HINCRBY', KEYS[2], buyer, -quantity)
return tonumber(quantity)
