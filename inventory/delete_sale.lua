-- Delete sale deletes the gate of a sale that is over. Orders that are queued or hold
-- units prevent this.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue  5 keys
-- ARGV  1 the epoch that the keeper has read, 0 for no gate
-- Returns 'OK', or 'KEPT' if the gate has another epoch, the sale is not over, an order
-- is queued or an order holds units.
local sale = redis.call('HMGET', KEYS[1], 'epoch', 'closes_at')
local time = redis.call('TIME')
if tonumber(sale[1] or '0') ~= tonumber(ARGV[1])
  or tonumber(sale[2] or '0') > time[1] * 1000
  or redis.call('XLEN', KEYS[4]) > 0
  or redis.call('HLEN', KEYS[2]) > 0 then
  return 'KEPT'
end
redis.call('UNLINK', unpack(KEYS))
return 'OK'
