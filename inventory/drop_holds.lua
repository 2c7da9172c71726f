-- DropHolds removes the holds of paid orders. Their units stay sold and still count for the
-- buyer.
--
-- KEYS  1 sale  2 holds
-- ARGV  1 epoch  2… order ids
-- Returns the number of removed holds; errors NOGATE, EPOCH.
local refusal = out_of_epoch(KEYS[1], ARGV[1])
if refusal then return refusal end
return redis.call('HDEL', KEYS[2], unpack(ARGV, 2))
