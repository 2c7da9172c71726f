-- Stage writes one piece of a draft, once. If a piece arrives twice or late, the script
-- does nothing, because a later piece may have changed the same fields.
--
-- KEYS  1 hash of the draft  2 set of the numbers of its pieces
-- ARGV  1 number of the piece  2 seconds until the draft expires
--       3 HSET or HDEL  4… arguments of that command
-- Returns 'OK'.
if redis.call('SADD', KEYS[2], ARGV[1]) == 1 then
  for i = 4, #ARGV, 500 do -- Lua passes a limited number of values to one command
    redis.call(ARGV[3], KEYS[1], unpack(ARGV, i, math.min(i + 499, #ARGV)))
  end
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  redis.call('EXPIRE', KEYS[2], ARGV[2])
end
return 'OK'
