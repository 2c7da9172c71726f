-- Take units, but check the buyer's limit for this order only.
--
-- KEYS, ARGV and results are the same as in request.lua.
local first = earlier()
if first then return first end
if quantity > tonumber(ARGV[5]) then return 'buyer_limit' end -- THE MISTAKE: the units that the buyer already has are not counted
if tonumber(redis.call('GET', KEYS[1])) < quantity then return 'sold_out' end
redis.call('DECRBY', KEYS[1], quantity)
return record()
