package doctor

import (
	"database/sql"
	"os"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A primary that waits for its replica without limit is OK. With the default timeout it is
// Bad.
func TestSemiSynchronousPrimary(t *testing.T) {
	t.Parallel()
	primary, replica := servertest.OpenMySQL(t, servers.MySQLConfig{}), servertest.OpenMySQL(t, servers.MySQLConfig{})
	check.Must(t, replica.ReplicateFrom(t.Context(), primary.Addr()))
	check.Must(t, primary.RequireReplica(t.Context()))
	const what = "semi-synchronous replication AFTER_SYNC, 1 replicas, timeout 18446744073709551615 ms"
	check.Eventually(t, "the replica acknowledges", func() bool { return levelOf(t, primary, what) == OK })
	db := open(t, primary)
	_, err := db.ExecContext(t.Context(), "SET GLOBAL rpl_semi_sync_master_timeout = 10000")
	check.Must(t, err)
	if level := levelOf(t, primary, "semi-synchronous replication AFTER_SYNC, 1 replicas, timeout 10000 ms"); level != Bad {
		t.Errorf("primary with a replication timeout: got level %q, want %q", level, Bad)
	}
}

// A group is OK with three members, and gets a warning with two.
func TestGroup(t *testing.T) {
	folder := os.Getenv("FLASHSALE_TEST_MYSQL9")
	if folder == "" {
		t.Skip("FLASHSALE_TEST_MYSQL9 names no folder with the mysqld of MySQL 9")
	}
	first := servertest.OpenMySQL(t, servers.MySQLConfig{SearchPath: []string{folder}, Group: true})
	if level := levelOf(t, first, "group replication, 3 members online, consistency BEFORE_ON_PRIMARY_FAILOVER"); level != OK {
		t.Errorf("group of three members: got level %q, want %q", level, OK)
	}
	first.Members[0].Kill()
	check.Eventually(t, "the group has two members", func() bool {
		return levelOf(t, first, "group replication, 2 members online, consistency BEFORE_ON_PRIMARY_FAILOVER") == Warn
	})
}

// levelOf returns the level of the finding with this text, or "".
func levelOf(t *testing.T, m *servers.MySQL, what string) string {
	t.Helper()
	for _, f := range examineMySQL(t.Context(), open(t, m), Plan{}) {
		if f.What == what {
			return f.Level
		}
	}
	return ""
}

func open(t *testing.T, m *servers.MySQL) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", m.DSN(""))
	check.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Settings that a test cannot change on a shared server.
func TestMySQLSettings(t *testing.T) {
	for _, c := range []struct {
		check func(map[string]string) Finding
		v     map[string]string
		level string
	}{
		{flush, map[string]string{"innodb_flush_log_at_trx_commit": "1"}, OK},
		{flush, map[string]string{"innodb_flush_log_at_trx_commit": "2"}, Bad},
		{flush, nil, Unknown},
		{binlog, map[string]string{"log_bin": "OFF", "sync_binlog": "0"}, Warn},
		{semiSync, semi("rpl_semi_sync_source_enabled", "OFF"), Unknown},
		{semiSync, nil, Unknown},
		{semiSync, semi("", ""), OK},
		{semiSync, semi("rpl_semi_sync_source_wait_point", "AFTER_COMMIT"), Warn},
		{semiSync, semi("rpl_semi_sync_source_timeout", "10000"), Bad},
		{semiSync, semi("rpl_semi_sync_source_timeout", "86400000"), OK},
		{semiSync, semi("rpl_semi_sync_source_wait_no_replica", "OFF"), Bad},
		{semiSync, semi("rpl_semi_sync_source_status", "OFF"), Bad},
		{semiSync, semi("rpl_semi_sync_source_clients", "0"), Bad},
		{group, grouped("", ""), OK},
		{group, grouped("members_online", "2"), Warn},
		{group, grouped("members_online", "0"), Bad},
		{group, grouped("group_replication_consistency", "EVENTUAL"), Warn},
		{group, grouped("group_replication_single_primary_mode", "OFF"), Warn},
		{binlog, map[string]string{"log_bin": "ON", "sync_binlog": "1"}, OK},
		{binlog, map[string]string{"log_bin": "ON", "sync_binlog": "0"}, Warn},
		{replication, map[string]string{"log_bin": "OFF", "binlog_format": "STATEMENT"}, OK},
		{replication, map[string]string{"log_bin": "ON", "binlog_format": "STATEMENT"}, Bad},
		{packet, map[string]string{"max_allowed_packet": "1048576"}, OK},
		{packet, map[string]string{"max_allowed_packet": "65536"}, Bad},
		{writable, map[string]string{"read_only": "OFF"}, OK},
		{writable, map[string]string{"read_only": "ON"}, Bad},
		{galera, map[string]string{"wsrep_sync_wait": "0"}, Warn},
		{galera, map[string]string{"wsrep_sync_wait": "6"}, Warn},
		{galera, map[string]string{"wsrep_sync_wait": "15"}, OK},
	} {
		if f := c.check(c.v); f.Level != c.level || (f.Level != OK) != (f.Why != "" && f.Do != "") {
			t.Errorf("settings %v: got finding %+v, want level %s with reason and advice unless OK", c.v, f, c.level)
		}
	}
}

// semi returns a primary that waits for its replica without limit, with one other setting.
func semi(name, value string) map[string]string {
	return map[string]string{
		"rpl_semi_sync_source_enabled": "ON", "rpl_semi_sync_source_wait_point": "AFTER_SYNC", "rpl_semi_sync_source_timeout": "18446744073709551615",
		"rpl_semi_sync_source_wait_no_replica": "ON", "rpl_semi_sync_source_status": "ON", "rpl_semi_sync_source_clients": "1", name: value,
	}
}

// grouped returns a member of a group of three, with one other setting.
func grouped(name, value string) map[string]string {
	return map[string]string{
		"members_online": "3", "group_replication_consistency": "BEFORE_ON_PRIMARY_FAILOVER", "group_replication_single_primary_mode": "ON", name: value,
	}
}
