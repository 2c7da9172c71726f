-- Gives a lock up, if it is still the caller's, or the caller's place in line.
-- The lock goes to the first who waits in the same step, with a message that
-- says so: it is not free in between, and nobody has to race for it.
--
-- The comparison and the deletion must stay one step: between a GET and a DEL
-- the lease can end and the next holder's key would be deleted.
--
-- KEYS[1]  the lock
-- KEYS[2]  its line
-- KEYS[3]  its waiters
-- ARGV[1]  the caller's token
-- ARGV[3]  1 if the number of receivers that PUBLISH returns is reliable, else 0
--
-- Returns   1  released
--           0  no such key: the lease has ended
--          -1  another token holds the lock, which stays as it is
local holder = redis.call('GET', KEYS[1])
if not is_of(ARGV[1], holder) then
  leave_line(KEYS[2], KEYS[3], ARGV[1])
  return holder and -1 or 0
end
if not hand_over(KEYS[1], KEYS[2], KEYS[3], ARGV[3]) then
  redis.call('DEL', KEYS[1])
end
return 1
