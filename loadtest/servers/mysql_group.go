package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// groupName is the same for all groups, because servers find each other by address.
const groupName = "f1a5b5a1-e000-4000-8000-000000000001"

// startGroup starts three servers that form a group. The first one is the primary.
func startGroup(ctx context.Context, o MySQLConfig) (first *MySQL, err error) {
	o.Group = false
	args := append([]string{
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--report-host=127.0.0.1",
		"--plugin-load-add=group_replication.so", "--loose-group-replication-start-on-boot=OFF",
		"--performance-schema=ON", // contains the list of members
	}, o.ExtraArgs...)
	defer func() {
		if err != nil && first != nil {
			err = errors.Join(err, first.Close())
		}
	}()
	for id := 1; id <= 3; id++ {
		o.ExtraArgs = append(slices.Clone(args), fmt.Sprint("--server-id=", id))
		m, err := StartMySQL(ctx, o)
		if err != nil {
			return first, err
		}
		if first == nil {
			first = m
		} else {
			first.Members = append(first.Members, m)
		}
		if err := m.JoinGroup(ctx, first.Addr()); err != nil {
			return first, err
		}
	}
	return first, nil
}

// Close stops the server and the other members of its group, and removes their
// directories.
func (m *MySQL) Close() error {
	errs := []error{m.Process.Close()}
	for _, other := range m.Members {
		errs = append(errs, other.Close())
	}
	return errors.Join(errs...)
}

// JoinGroup makes the server join the group of the server at seed and copy its data. If
// seed is the server's own address, it founds a group. JoinGroup returns when the
// server is online in the group.
func (m *MySQL) JoinGroup(ctx context.Context, seed string) error {
	begins := "OFF"
	if seed == m.Addr() {
		begins = "ON"
	}
	err := m.exec(ctx, "join the group of "+seed,
		"SET GLOBAL group_replication_group_name = '"+groupName+"'",
		"SET GLOBAL group_replication_communication_stack = 'MYSQL'", // uses the server's own port
		"SET GLOBAL group_replication_local_address = '"+m.Addr()+"'",
		"SET GLOBAL group_replication_group_seeds = '"+seed+"'",
		"SET GLOBAL group_replication_member_expel_timeout = 0", // expels a member that is silent for five seconds, without five seconds more
		"SET GLOBAL group_replication_bootstrap_group = "+begins,
		"CHANGE REPLICATION SOURCE TO SOURCE_USER = '"+account+"' FOR CHANNEL 'group_replication_recovery'",
		"START GROUP_REPLICATION",
		"SET GLOBAL group_replication_bootstrap_group = OFF")
	if err != nil {
		return err
	}
	return await(ctx, "wait for "+m.Addr()+" to be online in its group", func() error {
		online, err := m.number(ctx, "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_id = @@server_uuid AND member_state = 'ONLINE'")
		if err == nil && online != 1 {
			err = fmt.Errorf("the member is not online: its log ends:\n%s", m.LogTail())
		}
		return err
	})
}

// IsPrimary reports whether the server is online and the member of its group that
// accepts writes.
func (m *MySQL) IsPrimary(ctx context.Context) bool {
	n, err := m.number(ctx, "SELECT COUNT(*) FROM performance_schema.replication_group_members"+
		" WHERE member_id = @@server_uuid AND member_state = 'ONLINE' AND member_role = 'PRIMARY' AND NOT @@super_read_only")
	return err == nil && n == 1
}
