-- Confirm: the orders are paid. Their holds go, their units stay sold, and the
-- buyer's count stays with them.
--
-- KEYS  1 sale  2 holds
-- ARGV  1 epoch  2… order ids
-- Returns how many holds were dropped; errors NOGATE, EPOCH.
local no = out_of_epoch(KEYS[1], ARGV[1])
if no then return no end
return redis.call('HDEL', KEYS[2], unpack(ARGV, 2))
