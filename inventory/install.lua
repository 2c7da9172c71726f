-- Install: the last step of a rebuild. Puts in what the database says and
-- opens, in one step, and only where that is certain to be the latest word:
-- the fence is the highest seen, the epoch is newer than the gate's, the gate
-- is not open, nothing is queued that the database does not know, and what was
-- staged is all there (a Redis that failed over meanwhile may have lost it).
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue
--       5 staged holds  6 staged buyers  7 staged pieces
-- ARGV  1 fence  2 epoch  3 how many holds  4 how many buyers  5 how many pieces
--       6 total  7 available  8 per_buyer  9 opens_at ms  10 closes_at ms
-- Returns 'OK', or 'RETRY' where one of those is not so: start over;
-- error FENCED.
local no = fenced(KEYS[1], ARGV[1])
if no then return no end

local sale = redis.call('HMGET', KEYS[1], 'state', 'epoch')
if sale[1] == 'open'
  or tonumber(sale[2] or '0') >= tonumber(ARGV[2])
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
redis.call('UNLINK', KEYS[7])
redis.call('HSET', KEYS[1], 'state', 'open', 'epoch', ARGV[2], 'total', ARGV[6], 'available', ARGV[7],
  'per_buyer', ARGV[8], 'opens_at', ARGV[9], 'closes_at', ARGV[10], 'granted', 0,
  'queued', 0)
return 'OK'
