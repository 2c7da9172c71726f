-- Get: how many units are left, for get_decr.go to decide on. Changes nothing.
--
-- KEYS and ARGV as in request.lua.
-- Returns {available, total, 1 if the buyer has had an order or 0}; or the
-- outcome, where it does not hang on what is left.
local outcome = judge()
if outcome then return outcome end
if not within_limit() then return refuse(-6) end
return { available, tonumber(sale[6]), held and 1 or 0 }
