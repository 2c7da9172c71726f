-- Take units if not all are sold, with the comparison off by one.
--
-- KEYS, ARGV and results are the same as in request.lua.
local first = earlier()
if first then return first end
if over_limit() then return 'buyer_limit' end
-- THE MISTAKE: if no unit is left, sold equals the total, and one more order passes.
if tonumber(redis.call('GET', KEYS[1])) < 0 then return 'sold_out' end
redis.call('DECRBY', KEYS[1], quantity)
return record()
