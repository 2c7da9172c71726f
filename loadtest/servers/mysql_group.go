package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// groupName is that of every group: servers find each other by their addresses.
const groupName = "f1a5b5a1-e000-4000-8000-000000000001"

// startGroup starts three servers that are a group.
func startGroup(ctx context.Context, o MySQLOptions) (first *MySQL, err error) {
	o.Group = false
	args := append([]string{
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--report-host=127.0.0.1",
		"--plugin-load-add=group_replication.so", "--loose-group-replication-start-on-boot=OFF",
		"--performance-schema=ON", // it lists the members
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

// Close ends the server and the other members of its group, and removes their directories.
func (m *MySQL) Close() error {
	errs := []error{m.Process.Close()}
	for _, other := range m.Members {
		errs = append(errs, other.Close())
	}
	return errors.Join(errs...)
}

// JoinGroup has the server join the group of the one at seed, and copy what the
// group has. With its own address it begins a group. It returns when the server
// takes part.
func (m *MySQL) JoinGroup(ctx context.Context, seed string) error {
	begins := "OFF"
	if seed == m.Addr() {
		begins = "ON"
	}
	err := m.exec(ctx, "join the group of "+seed,
		"SET GLOBAL group_replication_group_name = '"+groupName+"'",
		"SET GLOBAL group_replication_communication_stack = 'MYSQL'", // by the server's own port
		"SET GLOBAL group_replication_local_address = '"+m.Addr()+"'",
		"SET GLOBAL group_replication_group_seeds = '"+seed+"'",
		"SET GLOBAL group_replication_member_expel_timeout = 0", // a member that is silent for five seconds is out; the default is five more
		"SET GLOBAL group_replication_bootstrap_group = "+begins,
		"CHANGE REPLICATION SOURCE TO SOURCE_USER = '"+account+"' FOR CHANNEL 'group_replication_recovery'",
		"START GROUP_REPLICATION",
		"SET GLOBAL group_replication_bootstrap_group = OFF")
	if err != nil {
		return err
	}
	return await(ctx, m.Addr()+" takes part in the group", func() error {
		online, err := m.number(ctx, "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_id = @@server_uuid AND member_state = 'ONLINE'")
		if err == nil && online != 1 {
			err = fmt.Errorf("it is not online: %s", m.LogTail())
		}
		return err
	})
}

// IsPrimary tells whether the server says that it is the member of its group that
// takes writes.
func (m *MySQL) IsPrimary(ctx context.Context) bool {
	n, err := m.number(ctx, "SELECT COUNT(*) FROM performance_schema.replication_group_members"+
		" WHERE member_id = @@server_uuid AND member_state = 'ONLINE' AND member_role = 'PRIMARY' AND NOT @@super_read_only")
	return err == nil && n == 1
}
