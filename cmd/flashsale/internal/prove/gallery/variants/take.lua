-- Take units if there are enough.
--
-- KEYS, ARGV and results are the same as in request.lua.
local first = earlier()
if first then return first end
if over_limit() then return 'buyer_limit' end
if tonumber(redis.call('GET', KEYS[1])) < quantity then return 'sold_out' end
redis.call('DECRBY', KEYS[1], quantity)
return record()
