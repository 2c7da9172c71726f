-- Prefix of the scripts that release units (scripts.go). Units return to the sale only
-- here.
--
-- The presence of a hold is the marker. If it is gone, the units have been released
-- already, or were paid for. Therefore the units of an order are released once, however
-- often the script is called. The buyer stays with a count of 0: "has had an order here".
--
-- release_units(sale, holds, buyers, order id): returns the number of released units.
local function release_units(sale, holds, buyers, id)
  local hold = redis.call('HGET', holds, id)
  if not hold then return 0 end
  local quantity, buyer = string.match(hold, '^(%d+) %S+ (.*)$')
  redis.call('HDEL', holds, id)
  local available = redis.call('HINCRBY', sale, 'available', quantity)
  if available > 0 and available <= tonumber(quantity) then cool_down(sale) end
  redis.call('HINCRBY', buyers, buyer, -quantity)
  return tonumber(quantity)
end
