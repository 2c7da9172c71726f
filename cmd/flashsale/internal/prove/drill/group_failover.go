package drill

import (
	"context"
	"slices"

	"flashsale/loadtest/servers"
)

var groupFailover = drill{
	name:    "group-failover",
	happens: "of a replication group of three MySQL servers the primary is killed, the others elect one; the old primary comes back as a member",
	sees:    "202 or 503 until the failover is done, then the truth",
	never:   "a yes lost; oversell; two orders under one key",
	group:   true,
	fault: func(ctx context.Context, s *stage) error {
		old := s.Stores.MySQL
		old.Kill()
		s.did("primary killed")
		ctx = context.WithoutCancel(ctx)
		err := s.until(ctx, "the group has another primary", func(ctx context.Context) bool {
			at := slices.IndexFunc(old.Members, func(m *servers.MySQL) bool { return m.IsPrimary(ctx) })
			if at >= 0 {
				s.standbyDB = old.Members[at]
			}
			return at >= 0
		})
		if err != nil {
			return err
		}
		s.lead(s.Nodes...)
		s.did("another one elected")
		if err = s.started(ctx, old.Restart, "old primary started again"); err != nil {
			return err
		}
		return s.started(ctx, func(ctx context.Context) error { return old.JoinGroup(ctx, s.standbyDB.Addr()) }, "it is a member again")
	},
}
