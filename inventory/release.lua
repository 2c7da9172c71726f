-- Release releases the units of closed orders, each order at most once.
--
-- KEYS  1 sale  2 holds  3 buyers
-- ARGV  1 epoch  2… order ids
-- Returns the number of released units; errors NOGATE, EPOCH.
local refusal = out_of_epoch(KEYS[1], ARGV[1])
if refusal then return refusal end

local units = 0
for i = 2, #ARGV do
  units = units + release_units(KEYS[1], KEYS[2], KEYS[3], ARGV[i])
end
return units
