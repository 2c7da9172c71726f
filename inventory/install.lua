-- Install: the last step of a rebuild. Puts in what the database says and
-- opens, in one step, and only where that is certain to be the latest word:
-- the gate is the one that this keeper has shut (another keeper's rebuild
-- would show by its epoch), it is not open, nothing is queued that the database
-- does not know, and what was staged is all there (a Redis that failed over
-- meanwhile may have lost it).
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue
--       5 staged holds  6 staged buyers  7 staged pieces  8 keys
-- ARGV  1 epoch of the gate that was shut, 0 for none  2 the new epoch
--       3 how many holds  4 how many buyers  5 how many pieces
--       6 total  7 available  8 per_buyer  9 opens_at ms  10 closes_at ms
-- Returns 'OK', or 'RETRY' where one of those is not so: start over.
local sale = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'available', 'built_on')
if sale[1] == 'open'
  or tonumber(sale[2] or '0') ~= tonumber(ARGV[1])
  or redis.call('XLEN', KEYS[4]) > 0
  or redis.call('HLEN', KEYS[5]) ~= tonumber(ARGV[3])
  or redis.call('HLEN', KEYS[6]) ~= tonumber(ARGV[4])
  or redis.call('SCARD', KEYS[7]) ~= tonumber(ARGV[5]) then
  redis.call('UNLINK', KEYS[5], KEYS[6], KEYS[7])
  return 'RETRY'
end
for i = 2, 3 do
  redis.call('UNLINK', KEYS[i]) -- freed beside the script, however large
  if redis.call('EXISTS', KEYS[i + 3]) == 1 then
    redis.call('RENAME', KEYS[i + 3], KEYS[i])
    redis.call('PERSIST', KEYS[i])
  end
end
redis.call('UNLINK', KEYS[7], KEYS[8]) -- nothing is queued: the database knows every key
redis.call('HSET', KEYS[1], 'state', 'open', 'epoch', ARGV[2], 'total', ARGV[6], 'available', ARGV[7],
  'per_buyer', ARGV[8], 'opens_at', ARGV[9], 'closes_at', ARGV[10], 'granted', 0,
  'queued', 0, 'built_on', replid())
redis.call('HSET', KEYS[3], '', 0) -- no buyer's name: by this mark reserve.lua knows the hash
-- The first gate of a sale needs no rest: no node can remember a "sold out". A stale
-- gate may have rested, or been empty, when units were left; so may one that is gone.
local built_on = sale[4] or ''
local unsure = not sale[3] or built_on == '?' or built_on ~= '' and built_on ~= replid()
if tonumber(ARGV[2]) > 1 and (unsure or tonumber(sale[3]) <= 0) and tonumber(ARGV[7]) > 0 then
  rest(KEYS[1], unsure)
end
return 'OK'
