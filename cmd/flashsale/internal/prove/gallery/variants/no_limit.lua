-- Take units, whoever wants them.
--
-- KEYS, ARGV and outcomes as in request.lua.
local first = earlier()
if first then return first end
if quantity > tonumber(ARGV[5]) then return 'buyer_limit' end -- THE MISTAKE: and what the buyer already has?
if tonumber(redis.call('GET', KEYS[1])) < quantity then return 'sold_out' end
redis.call('DECRBY', KEYS[1], quantity)
return record()
