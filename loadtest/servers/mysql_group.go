package servers

import (
	"context"
	"fmt"
)

// groupName is that of every group: servers find each other by their addresses.
const groupName = "f1a5b5a1-e000-4000-8000-000000000001"

// GroupMember are the options of a MySQL that is to join a replication group. It
// needs MySQL 8.0.27 or later, whose programs are in folder. Each member needs an
// id of its own.
func GroupMember(folder string, id int) MySQLOptions {
	return MySQLOptions{SearchPath: []string{folder}, ExtraArgs: []string{
		fmt.Sprintf("--server-id=%d", id), "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
		"--plugin-load-add=group_replication.so", "--performance-schema=ON", // which lists the members
	}}
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

// IsPrimary tells whether the server is the member of its group that takes writes.
func (m *MySQL) IsPrimary(ctx context.Context) (bool, error) {
	n, err := m.number(ctx, "SELECT COUNT(*) FROM performance_schema.replication_group_members"+
		" WHERE member_id = @@server_uuid AND member_state = 'ONLINE' AND member_role = 'PRIMARY' AND NOT @@super_read_only")
	return n == 1, err
}
