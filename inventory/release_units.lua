-- Put before the scripts that give units back (see scripts.go): the one place
-- where they return to sale.
--
-- The hold is the marker: where it is gone, the units have come back already,
-- or were paid for. So an order gives back once, however often it is asked.
-- The buyer stays with a count of 0: "has had an order here".
--
-- give_back(sale, holds, buyers, order id): how many units came back.
local function give_back(sale, holds, buyers, id)
  local hold = redis.call('HGET', holds, id)
  if not hold then return 0 end
  local quantity, buyer = string.match(hold, '^(%d+) %S+ (.*)$')
  redis.call('HDEL', holds, id)
  local available = redis.call('HINCRBY', sale, 'available', quantity)
  if available > 0 and available <= tonumber(quantity) then rest(sale) end
  redis.call('HINCRBY', buyers, buyer, -quantity)
  return tonumber(quantity)
end
