-- Gives one master's vote for a lease, or renews it, if nobody else has it.
--
-- KEYS[1]  the lock
-- KEYS[2]  is there once the token was given up: a vote that was asked for before
--          may arrive after that
-- ARGV[1]  the token
-- ARGV[2]  lease in ms
--
-- Returns   0  the token has the vote
--           1  another token has it, or this one was given up
--
-- A deletion comes before the write, as in acquire.lua.
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 1
end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and not has_ended(KEYS[1], holder) then
  return 1
end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0
