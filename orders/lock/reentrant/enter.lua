-- Enters a reentrant lock, for one lease, if it is free or its owner's.
--
-- An entry has a name of its own and is not merely counted: an entry that is
-- repeated because its answer was lost is still one, and so is a leaving.
--
-- KEYS[1]  the lock: a hash of "owner" and one field per entry
-- ARGV[1]  the entry
-- ARGV[2]  lease in ms
-- ARGV[3]  the entry's owner
--
-- Returns   0  entered, and held for one lease from now
--           n  above 0: held by another owner for n more ms
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
