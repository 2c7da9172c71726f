-- Take units that were available a moment ago, without checking again.
--
-- KEYS, ARGV and results are the same as in request.lua.
local first = earlier()
if first then return first end
if over_limit() then return 'buyer_limit' end
redis.call('DECRBY', KEYS[1], quantity)
return record()
