-- Issues the next fencing token of a lock to its holder. A former holder must not receive
-- a token, because it would be greater than the token of the present holder.
--
-- KEYS[1]  the lock
-- KEYS[2]  its counter
-- ARGV[1]  the caller's token
--
-- Returns   n  above 0: the fencing token
--           0  the key is missing: the lease has ended
--          -1  another token holds the lock
local holder = redis.call('GET', KEYS[1])
if not is_of(ARGV[1], holder) then
  return holder and -1 or 0
end
return redis.call('INCR', KEYS[2])
