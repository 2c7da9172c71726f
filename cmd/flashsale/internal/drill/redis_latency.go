package drill

import "context"

var redisLatency = drill{
	name:      "redis-latency",
	happens:   "every answer of Redis takes 50 to 250 ms longer, for a while",
	sees:      "a slower yes",
	never:     "an order under two ids; units held by nobody",
	redisLink: true,
	harm: func(ctx context.Context, s *stage) error {
		if err := s.moment(ctx); err != nil {
			return err
		}
		ms := 50 + s.random.Int64N(201)
		mend, err := s.redisLink.Delay(ms, ms/3)
		if err != nil {
			return err
		}
		s.did("Redis answers %d ms later", ms)
		s.pause(ctx, lease, lease*3/2)
		err = mend()
		s.did("as before")
		return err
	},
}
