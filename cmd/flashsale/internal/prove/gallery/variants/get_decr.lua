-- Take units that were seen a moment ago, whatever is left by now.
--
-- KEYS, ARGV and outcomes as in request.lua.
local first = earlier()
if first then return first end
if over_limit() then return 'buyer_limit' end
redis.call('DECRBY', KEYS[1], quantity)
return record()
