-- Take first, check afterwards.
--
-- KEYS, ARGV and results are the same as in request.lua.
local first = earlier()
if first then return first end
if over_limit() then return 'buyer_limit' end
if redis.call('DECRBY', KEYS[1], quantity) < 0 then
  return 'sold_out' -- THE MISTAKE: the units just taken are not returned
end
return record()
