-- Decr: takes the units that get_decr.go has seen a moment ago.
--
-- KEYS and ARGV as in request.lua.
-- Returns the outcome.
local outcome = judge()
if outcome then return outcome end
if not within_limit() then return refuse(-6) end
redis.call('HINCRBY', KEYS[1], 'available', -quantity) -- THE MISTAKE: whatever is left by now
return record()
