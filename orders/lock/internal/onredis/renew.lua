-- Starts a new lease for a lock that the caller holds.
--
-- The script never creates the key. An expired lock may have had another holder in the
-- meantime, and its first holder must learn of that.
--
-- KEYS[1]  the lock
-- ARGV[1]  the caller's token
-- ARGV[2]  lease in ms
--
-- Returns   1  renewed for one lease from now
--           0  the key is missing: the lease has ended
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
