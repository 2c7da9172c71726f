-- Install: the last step of a rebuild. It replaces the gate with the holds and buyers
-- that were staged from the database, and opens it, in one step.
--
-- It does so only if the gate is still the one that this keeper has shut, and if the
-- draft is complete. After another keeper's rebuild the gate has another epoch. A
-- failover may lose a part of the draft. Orders that are left in the queue belong to an
-- older epoch, which the database no longer accepts, and are dropped.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue
--       5 staged holds  6 staged buyers  7 staged pieces  8 keys
-- ARGV  1 epoch of the gate that was shut, 0 for none  2 the new epoch
--       3 number of holds  4 number of buyers  5 number of pieces
--       6 total  7 available  8 per_buyer  9 opens_at ms  10 closes_at ms
-- Returns 'OK', or 'RETRY' if the rebuild has to start over.
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
  redis.call('UNLINK', KEYS[i]) -- frees the memory after the script, because the hash may be large
  if redis.call('EXISTS', KEYS[i + 3]) == 1 then
    redis.call('RENAME', KEYS[i + 3], KEYS[i])
    redis.call('PERSIST', KEYS[i])
  end
end
redis.call('UNLINK', KEYS[4], KEYS[7], KEYS[8])
redis.call('HSET', KEYS[1], 'state', 'open', 'epoch', ARGV[2], 'total', ARGV[6], 'available', ARGV[7],
  'per_buyer', ARGV[8], 'opens_at', ARGV[9], 'closes_at', ARGV[10], 'granted', 0,
  'queued', 0, 'built_on', replid())
redis.call('HSET', KEYS[3], '', 0) -- a marker: if it is missing, reserve.lua takes the gate for stale. No buyer has an empty name
return 'OK'
