-- Release: gives the units of closed orders back, each order at most once.
--
-- KEYS  1 sale  2 holds  3 buyers
-- ARGV  1 epoch  2… order ids
-- Returns the units given back; errors NOGATE, EPOCH.
local no = out_of_epoch(KEYS[1], ARGV[1])
if no then return no end

local units = 0
for i = 2, #ARGV do
  units = units + give_back(KEYS[1], KEYS[2], KEYS[3], ARGV[i])
end
return units
