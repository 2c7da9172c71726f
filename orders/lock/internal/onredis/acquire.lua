-- Takes a lock for one lease, or says how long its holder has left; a caller
-- who waits is in line then. A lock that has become free by itself goes to the
-- first in line, whoever asks.
--
-- To ask again with the same token is to ask for the same lock: a client whose
-- answer was lost sends the same bytes once more and hears "held", where a
-- plain SET NX would report the lock as taken by the very caller who asks.
--
-- KEYS[1]  the lock
-- KEYS[2]  its line
-- KEYS[3]  its waiters
-- ARGV[1]  the caller's token
-- ARGV[2]  lease in ms
-- ARGV[3]  1 if the number of receivers that PUBLISH returns is reliable, else 0
-- ARGV[4]  the caller's channel, '' for one who does not wait
-- ARGV[5]  how often this caller has asked; comes back with the message
-- ARGV[6]  the caller's note, '' for none
--
-- Returns   0  held by the caller, for one lease from now
--           n  above 0: held by another token for n more ms
--          -1  held by another value that never expires (nothing of ours)
--
-- A deletion comes before each write: a Redis that is out of memory refuses a
-- script's first write where that could take memory, and lets the rest pass. A
-- lock takes hardly any, and who empties a queue needs one.
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
  join_line(KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2]), ARGV[2] .. ' ' .. ARGV[5] .. ' ' .. ARGV[4] .. ' ' .. ARGV[6])
end
if not holder or has_ended(KEYS[1], holder) then
  redis.call('DEL', KEYS[1])
  local new = hand_over(KEYS[1], KEYS[2], KEYS[3], ARGV[3])
  if not new then -- only dead ones were in line
    redis.call('SET', KEYS[1], value_of(ARGV[1], ARGV[6]), 'PX', ARGV[2])
  end
  if not new or new == ARGV[1] then
    return 0
  end
end
local left = redis.call('PTTL', KEYS[1])
if left == 0 then
  return 1 -- in its last millisecond, but not free yet
end
return left
