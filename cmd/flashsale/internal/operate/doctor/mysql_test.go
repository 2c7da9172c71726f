package doctor

import "testing"

// What a shared server can't be set to in a test.
func TestMySQLSettings(t *testing.T) {
	for _, c := range []struct {
		look  func(map[string]string) Finding
		v     map[string]string
		level string
	}{
		{flush, map[string]string{"innodb_flush_log_at_trx_commit": "1"}, OK},
		{flush, map[string]string{"innodb_flush_log_at_trx_commit": "2"}, Bad},
		{flush, nil, Unknown},
		{binlog, map[string]string{"log_bin": "OFF", "sync_binlog": "0"}, Warn},
		{semiSync, map[string]string{"rpl_semi_sync_master_enabled": "OFF", "rpl_semi_sync_master_wait_point": "AFTER_COMMIT"}, Unknown},
		{semiSync, map[string]string{"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_wait_point": "AFTER_COMMIT"}, Warn},
		{semiSync, map[string]string{"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_wait_point": "AFTER_SYNC"}, OK},
		{semiSync, map[string]string{"rpl_semi_sync_source_enabled": "ON", "rpl_semi_sync_source_wait_point": "AFTER_SYNC"}, OK},
		{semiSync, nil, Unknown},
		{binlog, map[string]string{"log_bin": "ON", "sync_binlog": "1"}, OK},
		{binlog, map[string]string{"log_bin": "ON", "sync_binlog": "0"}, Warn},
		{replication, map[string]string{"log_bin": "OFF", "binlog_format": "STATEMENT"}, OK},
		{replication, map[string]string{"log_bin": "ON", "binlog_format": "STATEMENT"}, Bad},
		{writable, map[string]string{"read_only": "OFF"}, OK},
		{writable, map[string]string{"read_only": "ON"}, Bad},
		{galera, map[string]string{"wsrep_sync_wait": "0"}, Warn},
		{galera, map[string]string{"wsrep_sync_wait": "6"}, Warn},
		{galera, map[string]string{"wsrep_sync_wait": "15"}, OK},
	} {
		if f := c.look(c.v); f.Level != c.level || (f.Level != OK) != (f.Why != "" && f.Do != "") {
			t.Errorf("%v: %+v, want %s", c.v, f, c.level)
		}
	}
}
