-- Grants one master's vote to a token for one lease, or renews it, unless another token has
-- the vote.
--
-- KEYS[1]  the lock
-- KEYS[2]  exists if the token was withdrawn: see drop.lua
-- ARGV[1]  the token
-- ARGV[2]  lease in ms
--
-- Returns   0  the token has the vote
--           1  another token has the vote, or this token was withdrawn
--
-- DEL precedes SET so that the script also works if Redis is out of memory, as in
-- acquire.lua.
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
