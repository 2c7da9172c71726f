-- Take first, look after.
--
-- KEYS and ARGV as in request.lua.
-- Returns the outcome.
local outcome = judge()
if outcome then return outcome end
if not within_limit() then return refuse(-6) end
local left = redis.call('HINCRBY', KEYS[1], 'available', -quantity)
if left < 0 then
  return refuse(-7) -- THE MISTAKE: and the quantity that was just taken?
end
return record()
