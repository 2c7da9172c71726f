-- Acquires a lock for one lease, or returns the holder's remaining time. If the lock is
-- held and the caller waits, the caller joins the wait queue. A lock whose lease has ended
-- goes to the first waiter, even if another caller runs the script.
--
-- A client whose answer was lost sends the same token again and receives "held by the
-- caller". With a plain SET NX, the client would find the lock held by itself.
--
-- KEYS[1]  the lock
-- KEYS[2]  its wait queue
-- KEYS[3]  its waiters
-- ARGV[1]  the caller's token
-- ARGV[2]  lease in ms
-- ARGV[3]  1 if the number of receivers that PUBLISH returns is reliable, else 0
-- ARGV[4]  the caller's channel, or '' if the caller does not wait
-- ARGV[5]  index of this request; the grant message contains it
-- ARGV[6]  the caller's note, or ''
--
-- Returns   0  held by the caller for one lease from now
--           n  above 0: held by another token for n more ms
--          -1  held by a foreign value that never expires
--
-- DEL precedes each write because a Redis that is out of memory rejects a script whose
-- first write may use memory. After a DEL the other writes pass. Locks must work then: they
-- use little memory, and the program that frees memory needs one.
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then -- the usual case: three commands
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[1], value_of(ARGV[1], ARGV[6]), 'PX', ARGV[2])
  return 0
end
local holder = redis.call('GET', KEYS[1])
if is_of(ARGV[1], holder) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 0
end
if ARGV[4] ~= '' then
  join_queue(KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2]), ARGV[2] .. ' ' .. ARGV[5] .. ' ' .. ARGV[4] .. ' ' .. ARGV[6])
end
if not holder or has_ended(KEYS[1], holder) then
  redis.call('DEL', KEYS[1])
  local new = hand_over(KEYS[1], KEYS[2], KEYS[3], ARGV[3])
  if not new then -- the wait queue contained only waiters that have expired
    redis.call('SET', KEYS[1], value_of(ARGV[1], ARGV[6]), 'PX', ARGV[2])
  end
  if not new or new == ARGV[1] then
    return 0
  end
end
local left = redis.call('PTTL', KEYS[1])
if left == 0 then
  return 1 -- the last millisecond reads as 0, but the lock is not free yet
end
return left
