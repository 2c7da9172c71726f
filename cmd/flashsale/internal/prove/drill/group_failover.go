package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
)

var groupFailover = drill{
	name:    "group-failover",
	happens: "of a replication group of three MySQL servers the primary is killed, the others elect one; the old primary comes back as a member",
	sees:    "202 or 503 until the failover is done, then the truth",
	never:   "a yes lost; oversell; two orders under one key",
	byName:  true,
	group:   true,
	wires:   true,
	fault: func(ctx context.Context, s *stage) error {
		old := s.Stores.MySQL
		old.Kill()
		s.did("primary killed")
		healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*lab.Patience)
		defer cancel()
		err := s.until(healing, "the group has another primary", func(ctx context.Context) bool {
			at := slices.IndexFunc(s.members, func(m *servers.MySQL) bool { is, err := m.IsPrimary(ctx); return is && err == nil })
			if at >= 0 {
				s.standbyDB = s.members[at]
			}
			return at >= 0
		})
		if err != nil {
			return err
		}
		s.lead(s.Nodes...)
		s.did("another one elected")
		if err := errors.Join(old.Restart(healing), old.JoinGroup(healing, s.standbyDB.Addr())); err != nil {
			return err
		}
		s.did("old primary is a member again")
		return nil
	},
}

// openGroup begins a group with the database that there is, and has two more join.
func (s *stage) openGroup(ctx context.Context) error {
	first := s.Stores.MySQL
	if err := first.JoinGroup(ctx, first.Addr()); err != nil {
		return err
	}
	for id := 2; id <= 3; id++ {
		m, err := s.StartMySQL(ctx, fmt.Sprint("mysql-", id), servers.GroupMember(s.cfg.MySQLFolder, id))
		if err != nil {
			return err
		}
		if err := m.JoinGroup(ctx, first.Addr()); err != nil {
			return err
		}
		s.members = append(s.members, m)
	}
	return nil
}
