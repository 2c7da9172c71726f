-- Take first, look after.
--
-- KEYS, ARGV and outcomes as in request.lua.
local first = earlier()
if first then return first end
if over_limit() then return 'buyer_limit' end
if redis.call('DECRBY', KEYS[1], quantity) < 0 then
  return 'sold_out' -- THE MISTAKE: and what was just taken?
end
return record()
