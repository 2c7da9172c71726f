-- Adds an entry to a reentrant lock, for one lease, if the lock is free or belongs to the
-- same owner.
--
-- Each entry has a name. A plain counter would count an entry twice if the client repeats
-- the request because the answer was lost.
--
-- KEYS[1]  the lock: a hash with the field "owner" and one field per entry
-- ARGV[1]  the entry
-- ARGV[2]  lease in ms
-- ARGV[3]  the owner
--
-- Returns   0  entered; the lock is held for one lease from now
--           n  above 0: another owner holds the lock for n more ms
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[3] then
  local left = redis.call('PTTL', KEYS[1])
  if left <= longest() then
    return math.max(1, left)
  end
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], 'owner', ARGV[3], 'entry:' .. ARGV[1], 1)
keep(ARGV[2])
return 0
