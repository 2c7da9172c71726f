-- Install is the last step of a rebuild. It replaces the gate with the staged holds and
-- buyers and opens it, in one step.
--
-- The gate must still be the one that this keeper has shut, and the draft must be
-- complete. After another keeper's rebuild the gate has another epoch, and a failover may
-- lose a part of the draft. Orders left in the queue are dropped: they belong to an older
-- epoch, which the database no longer accepts.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue
--       5 staged holds  6 staged buyers  7 staged pieces  8 keys
-- ARGV  1 epoch of the gate that was shut, 0 for no gate  2 the new epoch
--       3 number of holds  4 number of buyers  5 number of pieces
--       6 total  7 available  8 per_buyer  9 opens_at ms  10 closes_at ms
-- Returns 'OK', or 'RETRY' if the rebuild has to start again.
local sale = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if sale[1] == 'open'
  or tonumber(sale[2] or '0') ~= tonumber(ARGV[1])
  or redis.call('HLEN', KEYS[5]) ~= tonumber(ARGV[3])
  or redis.call('HLEN', KEYS[6]) ~= tonumber(ARGV[4])
  or redis.call('SCARD', KEYS[7]) ~= tonumber(ARGV[5]) then
  redis.call('UNLINK', KEYS[5], KEYS[6], KEYS[7])
  return 'RETRY'
end
for i = 2, 3 do
  redis.call('UNLINK', KEYS[i]) -- the hash may be large: UNLINK frees its memory in the background
  if redis.call('EXISTS', KEYS[i + 3]) == 1 then
    redis.call('RENAME', KEYS[i + 3], KEYS[i])
    redis.call('PERSIST', KEYS[i])
  end
end
redis.call('UNLINK', KEYS[4], KEYS[7], KEYS[8])
redis.call('HSET', KEYS[1], 'state', 'open', 'epoch', ARGV[2], 'total', ARGV[6], 'available', ARGV[7],
  'per_buyer', ARGV[8], 'opens_at', ARGV[9], 'closes_at', ARGV[10], 'granted', 0,
  'queued', 0, 'built_on', replid())
redis.call('HSET', KEYS[3], '', 0) -- marker: without it, reserve.lua treats the gate as stale. No buyer has an empty name
return 'OK'
