-- Withdraws a token at one master: deletes its vote, and rejects a vote.lua that arrives
-- later.
--
-- KEYS[1]  the lock
-- KEYS[2]  marks the token as withdrawn, for one lease; no vote.lua arrives later than that
-- ARGV[1]  the token
-- ARGV[2]  lease in ms
--
-- Returns   1  the vote is deleted
--           0  the token had no vote: the lease has ended
--          -1  another token has the vote, which is unchanged
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[2], '', 'PX', ARGV[2])
if not holder then
  return 0
end
return holder == ARGV[1] and 1 or -1
