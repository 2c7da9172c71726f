-- Stage: writes one piece of a draft, once. A piece that arrives again, or late,
-- changes nothing: a later one may have changed the same field since.
--
-- KEYS  1 hash of the draft  2 its pieces, a set of their numbers
-- ARGV  1 number of the piece  2 for how long the draft is kept, seconds
--       3 HSET or HDEL  4… what that takes
-- Returns 'OK'.
if redis.call('SADD', KEYS[2], ARGV[1]) == 1 then
  for i = 4, #ARGV, 500 do -- a script can hand only so much to one command
    redis.call(ARGV[3], KEYS[1], unpack(ARGV, i, math.min(i + 499, #ARGV)))
  end
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  redis.call('EXPIRE', KEYS[2], ARGV[2])
end
return 'OK'
