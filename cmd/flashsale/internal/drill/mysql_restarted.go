package drill

import (
	"context"
	"time"
)

var mysqlRestarted = drill{
	name:    "mysql-restarted",
	happens: "MySQL is killed and started again on its data",
	sees:    "202 or 503 meanwhile, then the truth",
	never:   "a duplicate; a yes lost",
	harm: func(ctx context.Context, s *stage) error {
		if err := s.moment(ctx); err != nil {
			return err
		}
		s.stores.MySQL.Kill()
		s.did("MySQL killed")
		s.pause(ctx, 100*time.Millisecond, time.Second)
		if err := s.stores.MySQL.Restart(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		s.did("started again")
		return nil
	},
}
