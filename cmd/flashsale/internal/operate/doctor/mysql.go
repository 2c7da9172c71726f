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
	if v["wsrep_on"] == "ON" {
		found = append(found, galera(v))
	} else if v["log_bin"] == "ON" {
		found = append(found, semiSync(v))
	}
	return found
}

func variables(ctx context.Context, db *sql.DB) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, `SHOW GLOBAL VARIABLES WHERE Variable_name IN
		('version', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', 'max_connections', 'read_only',
		 'wsrep_on', 'wsrep_sync_wait', 'tidb_enable_check_constraint',
		 'rpl_semi_sync_master_enabled', 'rpl_semi_sync_master_wait_point', 'rpl_semi_sync_source_enabled', 'rpl_semi_sync_source_wait_point')`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	v := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		v[name] = value
	}
	return v, rows.Err()
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
	enabled, point := v["rpl_semi_sync_source_enabled"], v["rpl_semi_sync_source_wait_point"]
	if enabled == "" { // MariaDB, and MySQL before 8.0.26
		enabled, point = v["rpl_semi_sync_master_enabled"], v["rpl_semi_sync_master_wait_point"]
	}
	if enabled != "ON" {
		return Finding{Level: Unknown, Store: "mysql", What: "no semi-synchronous replication",
			Why: "a replica that takes over may lack orders that were answered with 201",
			Do:  "where one may take over: semi-synchronous replication with AFTER_SYNC, or a group"}
	}
	f := Finding{Level: OK, Store: "mysql", What: "semi-synchronous replication " + point}
	return f.unless(point == "AFTER_SYNC", Warn,
		"rows show before a replica has them: after a failover other programs may have read orders that are gone",
		"rpl_semi_sync_master_wait_point = AFTER_SYNC (MySQL: rpl_semi_sync_source_wait_point)")
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
	most, _ := strconv.Atoi(v["max_connections"])
	need := plan.Nodes * plan.MySQLConnections
	f := Finding{Level: OK, Store: "mysql", What: fmt.Sprintf("max_connections %d, of which %d nodes take up to %d", most, plan.Nodes, need)}
	return f.unless(need < most, Bad, // one is the operator's
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
		"a buyer who asks another node for an order that has just got a 201 may hear 404", "wsrep_sync_wait = 1")
}
