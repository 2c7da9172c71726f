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
	fault: func(ctx context.Context, s *stage) error {
		p := s.Stores.MySQL.Process
		return s.killed(ctx, "MySQL killed", p, 100*time.Millisecond, time.Second, p.Restart, "started again")
	},
}
