-- Prefix of the scripts that release units (scripts.go). No other script releases units.
--
-- The hold is the marker. If the order has no hold, its units were released before, or
-- paid for. Therefore an order's units are released once, however often the script is called.
-- The buyer's field stays, with 0 units: it records that the buyer has had an order.
--
-- release_units(sale, holds, buyers, id) returns the number of released units.
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
