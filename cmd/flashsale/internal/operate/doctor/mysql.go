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
			Why: "without MySQL nothing is sold", Do: "start it, or correct --mysql"}}
	}
	found := []Finding{{Level: OK, Store: "mysql", What: "version " + v["version"]}, connections(v, plan), packet(v), writable(v)}
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

// mysqlSettings are queries of settings and of the state of replicas.
var mysqlSettings = []string{
	`SHOW GLOBAL VARIABLES WHERE Variable_name IN
		('version', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', 'max_connections', 'max_allowed_packet', 'read_only',
		 'wsrep_on', 'wsrep_sync_wait', 'tidb_enable_check_constraint', 'group_replication_group_name', 'group_replication_consistency', 'group_replication_single_primary_mode')`,
	// MariaDB, and MySQL before 8.0.26, use the words master and slave.
	"SHOW GLOBAL VARIABLES LIKE 'rpl\\_semi\\_sync\\_%'",
	"SHOW GLOBAL STATUS LIKE 'Rpl\\_semi\\_sync\\_%'",
}

// variables returns values by name, in lower case and with the words source and replica.
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

// flush checks that a commit is on disk before it is confirmed. A 201 rests on that.
func flush(v map[string]string) Finding {
	set, given := v["innodb_flush_log_at_trx_commit"]
	if !given { // a database with MySQL's protocol but without InnoDB
		return Finding{Level: Unknown, Store: "mysql", What: "no innodb_flush_log_at_trx_commit",
			Why: "a 201 is as durable as a commit of this database", Do: "make sure that a commit survives a crash of the machine"}
	}
	f := Finding{Level: OK, Store: "mysql", What: "innodb_flush_log_at_trx_commit " + set}
	return f.unless(set == "1", Bad, "a crash of the machine loses orders that were answered with 201", "innodb_flush_log_at_trx_commit = 1")
}

func binlog(v map[string]string) Finding {
	if v["log_bin"] != "ON" {
		return Finding{Level: Warn, Store: "mysql", What: "no binary log",
			Why: "no replica can take over, and a restored backup lacks later orders; InnoDB also shows rows before they are on disk, so answers that were only read wait for a write",
			Do:  "log_bin, sync_binlog = 1"}
	}
	f := Finding{Level: OK, Store: "mysql", What: "sync_binlog " + v["sync_binlog"]}
	return f.unless(v["sync_binlog"] == "1", Warn,
		"after a crash a replica that takes over may lack orders that were answered with 201", "sync_binlog = 1: about 12 % slower commits")
}

// semiSync checks that a replica has every order that was answered 201, and that it has
// the order before other clients can read it.
func semiSync(v map[string]string) Finding {
	if v["rpl_semi_sync_source_enabled"] != "ON" {
		return Finding{Level: Unknown, Store: "mysql", What: "no semi-synchronous replication",
			Why: "a replica that takes over may lack orders that were answered with 201",
			Do:  "if a replica may take over: semi-synchronous replication with AFTER_SYNC and no timeout, or a group"}
	}
	point, timeout := v["rpl_semi_sync_source_wait_point"], v["rpl_semi_sync_source_timeout"]
	f := Finding{Level: OK, Store: "mysql", What: fmt.Sprintf("semi-synchronous replication %s, %s replicas, timeout %s ms",
		point, v["rpl_semi_sync_source_clients"], timeout)}
	f = f.unless(point == "AFTER_SYNC", Warn,
		"rows are visible before a replica has them: after a failover other programs may have read orders that are lost",
		"rpl_semi_sync_master_wait_point = AFTER_SYNC (MySQL: rpl_semi_sync_source_wait_point)")
	f = f.unless(v["rpl_semi_sync_source_clients"] != "0", Bad,
		"no replica acknowledges: commits wait, or continue without a replica", "SHOW REPLICA STATUS on the replicas; rpl_semi_sync_slave_enabled = ON (MySQL: rpl_semi_sync_replica_enabled)")
	ms, err := strconv.ParseUint(timeout, 10, 64)
	waits := err == nil && ms >= longTimeout && v["rpl_semi_sync_source_wait_no_replica"] != "OFF" && v["rpl_semi_sync_source_status"] == "ON"
	return f.unless(waits, Bad,
		"without a replica commits are answered nevertheless, after the timeout or at once: a failover then loses orders that were answered with 201",
		"the longest rpl_semi_sync_master_timeout, and rpl_semi_sync_master_wait_no_slave = ON (MySQL: rpl_semi_sync_source_timeout, rpl_semi_sync_source_wait_no_replica): without a replica nothing is sold")
}

// longTimeout is a day in milliseconds, enough time for an operator to repair a replica.
const longTimeout = 24 * 3600 * 1000

// group checks a replication group, in which a majority of members has every commit.
func group(v map[string]string) Finding {
	online, consistency := v["members_online"], v["group_replication_consistency"]
	f := Finding{Level: OK, Store: "mysql", What: fmt.Sprintf("group replication, %s members online, consistency %s", online, consistency)}
	f = f.unless(consistency != "EVENTUAL", Warn,
		"a new primary may answer before it has applied the commits of the old one: an order that was answered 201 is answered 404, or refused", "group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER")
	f = f.unless(v["group_replication_single_primary_mode"] == "ON", Warn,
		"row locks hold on one member only: nodes that write to different members undo each other's transactions", "group_replication_single_primary_mode = ON, and the primary's address in --mysql")
	n, err := strconv.Atoi(online)
	f = f.unless(err == nil && n >= 3, Warn, "if one more member is lost, nothing is sold", "three members or more")
	return f.unless(err == nil && n > 0, Bad, "this server is not a member of its group: it refuses writes", "START GROUP_REPLICATION")
}

// replication checks the log format. All transactions are READ COMMITTED.
func replication(v map[string]string) Finding {
	f := Finding{Level: OK, Store: "mysql", What: "binlog_format " + v["binlog_format"]}
	return f.unless(v["log_bin"] != "ON" || v["binlog_format"] != "STATEMENT", Bad,
		"transactions are READ COMMITTED, which InnoDB refuses to log by statement", "binlog_format = ROW")
}

func connections(v map[string]string, plan Plan) Finding {
	if v["max_connections"] == "0" { // TiDB has no limit
		return Finding{Level: OK, Store: "mysql", What: "max_connections 0, no limit"}
	}
	limit, _ := strconv.Atoi(v["max_connections"])
	need := plan.Nodes * plan.MySQLConnections
	f := Finding{Level: OK, Store: "mysql", What: fmt.Sprintf("max_connections %d, of which %d nodes take up to %d", limit, plan.Nodes, need)}
	return f.unless(need < limit, Bad, // one connection is reserved for the operator
		"nodes are refused at the height of a sale", fmt.Sprintf("max_connections = %d or more", need+need/4+8))
}

// packet checks the one variable that a session cannot change and that can reject statements.
func packet(v map[string]string) Finding {
	bytes, err := strconv.Atoi(v["max_allowed_packet"])
	f := Finding{Level: OK, Store: "mysql", What: "max_allowed_packet " + v["max_allowed_packet"]}
	return f.unless(err == nil && bytes >= 1<<20, Bad, "a batch of orders is one statement, and nodes do not start", "max_allowed_packet = 1048576 or more")
}

func writable(v map[string]string) Finding {
	f := Finding{Level: OK, Store: "mysql", What: "read_only " + v["read_only"]}
	return f.unless(v["read_only"] != "ON", Bad, "this is a replica: nothing can be sold through it", "the primary's address in --mysql")
}

// galera checks a cluster of masters. A commit is safe on all of them, but a read of another
// master may not see it yet.
func galera(v map[string]string) Finding {
	f := Finding{Level: OK, Store: "mysql", What: "Galera cluster, wsrep_sync_wait " + v["wsrep_sync_wait"]}
	wait, err := strconv.Atoi(v["wsrep_sync_wait"])
	return f.unless(err == nil && wait&1 == 1, Warn,
		"another node may not yet see an order that was just answered 201: it is answered 404, or refused", "wsrep_sync_wait = 1")
}
