-- Reserve without asking what the buyer already has.
--
-- KEYS and ARGV as in request.lua.
-- Returns the outcome.
local outcome = judge()
if outcome then return outcome end
-- THE MISTAKE: nothing here calls within_limit()
if quantity > available then return refuse(-7) end
redis.call('HINCRBY', KEYS[1], 'available', -quantity)
return record()
