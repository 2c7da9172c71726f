-- Starts a new lease for a lock, if it is still the caller's.
--
-- The key is never created here: a lock that has expired may have protected
-- somebody else's work since, and must not come back as if nothing happened.
--
-- KEYS[1]  the lock
-- ARGV[1]  the caller's token
-- ARGV[2]  lease in ms
--
-- Returns   1  renewed, for one lease from now
--           0  no such key: the lease has ended
--          -1  another token holds the lock
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
if not is_of(ARGV[1], holder) then
  return -1
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
