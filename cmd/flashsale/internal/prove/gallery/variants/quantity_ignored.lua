-- Take one unit if there are enough for the quantity.
--
-- KEYS, ARGV and results are the same as in request.lua.
local first = earlier()
if first then return first end
if over_limit() then return 'buyer_limit' end
if tonumber(redis.call('GET', KEYS[1])) < quantity then return 'sold_out' end
redis.call('DECR', KEYS[1]) -- THE MISTAKE: one unit, for any quantity
return record()
