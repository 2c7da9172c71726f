-- Look: one consistent view of the gate. Changes nothing.
--
-- KEYS  1 sale  2 queue  3 holds
-- Returns {state, epoch, total, available, holds, order id, quantity, …} with
-- the queued orders at the end, or {} if there is no gate.
local sale = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'total', 'available')
if not sale[1] then return {} end
local out = { sale[1], sale[2], sale[3], sale[4], redis.call('HLEN', KEYS[3]) }
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '-', '+')) do
  for n = 3, #entry[2], 2 do
    out[#out + 1] = entry[2][n]
    out[#out + 1] = string.match(entry[2][n + 1], '^%d+')
  end
end
return out
