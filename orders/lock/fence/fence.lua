-- Issues the next fencing token of a lock, to its holder only: a former holder
-- that woke up late would get one greater than the present holder's.
--
-- KEYS[1]  the lock
-- KEYS[2]  its counter
-- ARGV[1]  the caller's token
--
-- Returns   n  above 0: the fencing token
--           0  no such key: the lease has ended
--          -1  another token holds the lock
local holder = redis.call('GET', KEYS[1])
if not is_of(ARGV[1], holder) then
  return holder and -1 or 0
end
return redis.call('INCR', KEYS[2])
