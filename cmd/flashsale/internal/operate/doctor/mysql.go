package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

func examineMySQL(ctx context.Context, db *sql.DB, plan Plan) []Finding {
	v, err := variables(ctx, db)
	if err != nil {
		return []Finding{{Level: Bad, Store: "mysql", What: "does not answer: " + err.Error(),
			Why: "without it nothing is sold", Do: "start it, or mend --mysql"}}
	}
	found := []Finding{{Level: OK, Store: "mysql", What: "version " + v["version"]}, connections(v, plan), writable(v)}
	if strings.Contains(v["version"], "-TiDB-") {
		return append(found, tidb(ctx, db, v)...)
	}
	found = append(found, flush(v), binlog(v), replication(v))
	switch {
	case v["wsrep_on"] == "ON":
		found = append(found, galera(v))
	case v["group_replication_group_name"] != "":
		found = append(found, group(v))
	case v["log_bin"] == "ON":
		found = append(found, semiSync(v))
	}
	return found
}

// mysqlSettings, and what the server says of its replicas.
var mysqlSettings = []string{
	`SHOW GLOBAL VARIABLES WHERE Variable_name IN
		('version', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', 'max_connections', 'read_only',
		 'wsrep_on', 'wsrep_sync_wait', 'tidb_enable_check_constraint', 'group_replication_group_name', 'group_replication_consistency', 'group_replication_single_primary_mode')`,
	// MariaDB and MySQL before 8.0.26 say master and slave.
	"SHOW GLOBAL VARIABLES LIKE 'rpl\\_semi\\_sync\\_%'",
	"SHOW GLOBAL STATUS LIKE 'Rpl\\_semi\\_sync\\_%'",
}

// variables are by name, in small letters and today's words.
func variables(ctx context.Context, db *sql.DB) (map[string]string, error) {
	v := map[string]string{}
	read := func(query string) error {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				return err
			}
			v[strings.NewReplacer("master", "source", "slave", "replica").Replace(strings.ToLower(name))] = value
		}
		return rows.Err()
	}
	for _, query := range mysqlSettings {
		if err := read(query); err != nil {
			return nil, err
		}
	}
	if v["group_replication_group_name"] == "" {
		return v, nil
	}
	return v, read("SELECT 'members_online', COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'")
}

// flush is what a 201 rests on.
func flush(v map[string]string) Finding {
	set, given := v["innodb_flush_log_at_trx_commit"]
	if !given { // a database that speaks the protocol and is not InnoDB
		return Finding{Level: Unknown, Store: "mysql", What: "no innodb_flush_log_at_trx_commit",
			Why: "a 201 is as durable as a commit of this database", Do: "see that a commit survives a crash of the machine"}
	}
	f := Finding{Level: OK, Store: "mysql", What: "innodb_flush_log_at_trx_commit " + set}
	return f.unless(set == "1", Bad, "a crash of the machine loses orders that were answered with 201", "innodb_flush_log_at_trx_commit = 1")
}

func binlog(v map[string]string) Finding {
	if v["log_bin"] != "ON" {
		return Finding{Level: Warn, Store: "mysql", What: "no binary log",
			Why: "no replica can take over, and a restored backup lacks what was sold since; and rows show before they are on disk, so answers that were only read wait for a write",
			Do:  "log_bin, sync_binlog = 1"}
	}
	f := Finding{Level: OK, Store: "mysql", What: "sync_binlog " + v["sync_binlog"]}
	return f.unless(v["sync_binlog"] == "1", Warn,
		"after a crash a replica that takes over may lack orders that were answered with 201", "sync_binlog = 1: about 12 % slower commits")
}

// semiSync is whether a replica has what was answered with 201, and whether it
// has it before others can read it.
func semiSync(v map[string]string) Finding {
	if v["rpl_semi_sync_source_enabled"] != "ON" {
		return Finding{Level: Unknown, Store: "mysql", What: "no semi-synchronous replication",
			Why: "a replica that takes over may lack orders that were answered with 201",
			Do:  "where one may take over: semi-synchronous replication with AFTER_SYNC and no timeout, or a group"}
	}
	point, timeout := v["rpl_semi_sync_source_wait_point"], v["rpl_semi_sync_source_timeout"]
	f := Finding{Level: OK, Store: "mysql", What: fmt.Sprintf("semi-synchronous replication %s, %s replicas, timeout %s ms",
		point, v["rpl_semi_sync_source_clients"], timeout)}
	f = f.unless(point == "AFTER_SYNC", Warn,
		"rows show before a replica has them: after a failover other programs may have read orders that are gone",
		"rpl_semi_sync_master_wait_point = AFTER_SYNC (MySQL: rpl_semi_sync_source_wait_point)")
	f = f.unless(v["rpl_semi_sync_source_clients"] != "0", Bad,
		"no replica acknowledges: commits wait, or go on without one", "SHOW REPLICA STATUS on the replicas; rpl_semi_sync_slave_enabled = ON (MySQL: rpl_semi_sync_replica_enabled)")
	ms, err := strconv.ParseUint(timeout, 10, 64)
	waits := err == nil && ms >= longTimeout && v["rpl_semi_sync_source_wait_no_replica"] != "OFF" && v["rpl_semi_sync_source_status"] == "ON"
	return f.unless(waits, Bad,
		"without a replica commits are answered all the same, after the timeout or at once: a failover then loses orders that were answered with 201",
		"the longest rpl_semi_sync_master_timeout, and rpl_semi_sync_master_wait_no_slave = ON (MySQL: rpl_semi_sync_source_timeout, rpl_semi_sync_source_wait_no_replica): without a replica nothing is sold")
}

// longTimeout is a day in milliseconds, within which somebody has seen to the replicas.
const longTimeout = 24 * 3600 * 1000

// group is a replication group: a commit is on most of its members.
func group(v map[string]string) Finding {
	online, consistency := v["members_online"], v["group_replication_consistency"]
	f := Finding{Level: OK, Store: "mysql", What: fmt.Sprintf("group replication, %s members online, consistency %s", online, consistency)}
	f = f.unless(consistency != "EVENTUAL", Warn,
		"a new primary may answer before it has applied what the old one confirmed: an order that got a 201 is answered 404, or refused", "group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER")
	f = f.unless(v["group_replication_single_primary_mode"] == "ON", Warn,
		"row locks hold on one member: nodes that write to different ones undo each other's transactions", "group_replication_single_primary_mode = ON, and the primary's address in --mysql")
	n, err := strconv.Atoi(online)
	f = f.unless(err == nil && n >= 3, Warn, "if one more is lost, nothing is sold", "three members or more")
	return f.unless(err == nil && n > 0, Bad, "this server is no member of its group: it refuses writes", "START GROUP_REPLICATION")
}

// replication of READ COMMITTED, which every transaction of ours is.
func replication(v map[string]string) Finding {
	f := Finding{Level: OK, Store: "mysql", What: "binlog_format " + v["binlog_format"]}
	return f.unless(v["log_bin"] != "ON" || v["binlog_format"] != "STATEMENT", Bad,
		"transactions are READ COMMITTED, which InnoDB refuses to log by statement", "binlog_format = ROW")
}

func connections(v map[string]string, plan Plan) Finding {
	if v["max_connections"] == "0" { // TiDB's
		return Finding{Level: OK, Store: "mysql", What: "max_connections 0, no limit"}
	}
	limit, _ := strconv.Atoi(v["max_connections"])
	need := plan.Nodes * plan.MySQLConnections
	f := Finding{Level: OK, Store: "mysql", What: fmt.Sprintf("max_connections %d, of which %d nodes take up to %d", limit, plan.Nodes, need)}
	return f.unless(need < limit, Bad, // one is the operator's
		"nodes are refused at the height of a sale", fmt.Sprintf("max_connections = %d or more", need+need/4+8))
}

func writable(v map[string]string) Finding {
	f := Finding{Level: OK, Store: "mysql", What: "read_only " + v["read_only"]}
	return f.unless(v["read_only"] != "ON", Bad, "this is a replica: nothing can be sold through it", "the primary's address in --mysql")
}

// galera is a cluster of masters. What it commits is safe on all of them; that
// a read sees it is another matter.
func galera(v map[string]string) Finding {
	f := Finding{Level: OK, Store: "mysql", What: "Galera cluster, wsrep_sync_wait " + v["wsrep_sync_wait"]}
	wait, err := strconv.Atoi(v["wsrep_sync_wait"])
	return f.unless(err == nil && wait&1 == 1, Warn,
		"another node may not see an order that has just got a 201 yet: it is answered 404, or refused", "wsrep_sync_wait = 1")
}
