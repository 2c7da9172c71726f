-- Gives a place up, or the token's place in line.
--
-- ARGV[1]  the token
-- ARGV[3]  how many places there are
--
-- Returns as renew.lua
leave_line(ARGV[1])
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  return 1
end
return redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[3]) and 0 or -1
