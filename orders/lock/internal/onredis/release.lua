-- Releases a lock that the caller holds, or removes the caller from the wait queue. The
-- script grants the lock to the first waiter in the same step, so the lock is never free
-- while callers wait.
--
-- The comparison and the deletion must stay one step. Otherwise the lease could end between
-- a GET and a DEL, and the DEL would delete the next holder's key.
--
-- KEYS[1]  the lock
-- KEYS[2]  its wait queue
-- KEYS[3]  its waiters
-- ARGV[1]  the caller's token
-- ARGV[3]  1 if the number of receivers that PUBLISH returns is reliable, else 0
--
-- Returns   1  released
--           0  the key is missing: the lease has ended
--          -1  another token holds the lock, which is unchanged
local holder = redis.call('GET', KEYS[1])
if not is_of(ARGV[1], holder) then
  leave_queue(KEYS[2], KEYS[3], ARGV[1])
  return holder and -1 or 0
end
if not hand_over(KEYS[1], KEYS[2], KEYS[3], ARGV[3]) then
  redis.call('DEL', KEYS[1])
end
return 1
