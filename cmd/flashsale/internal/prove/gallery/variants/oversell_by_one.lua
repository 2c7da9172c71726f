-- Take units if not everything is sold yet; or so it seems.
--
-- KEYS, ARGV and outcomes as in request.lua.
local first = earlier()
if first then return first end
if over_limit() then return 'buyer_limit' end
-- THE MISTAKE: with nothing left, sold equals the total, and this lets one more by.
if tonumber(redis.call('GET', KEYS[1])) < 0 then return 'sold_out' end
redis.call('DECRBY', KEYS[1], quantity)
return record()
