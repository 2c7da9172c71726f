package drill

import "context"

var redisOneWayCut = drill{
	name:      "redis-one-way-cut",
	happens:   "Redis gets what the nodes send, and they get no answers, for about a lease",
	sees:      "503 or 202; the order is found under its key",
	never:     "units taken for good by an answer that was lost",
	redisLink: true,
	harm: func(ctx context.Context, s *stage) error {
		if err := s.moment(ctx); err != nil {
			return err
		}
		mend, err := s.redisLink.Swallow()
		if err != nil {
			return err
		}
		s.did("Redis's answers cut off")
		s.pause(ctx, lease*3/4, lease*5/4)
		err = mend()
		s.did("let through again")
		return err
	},
}
