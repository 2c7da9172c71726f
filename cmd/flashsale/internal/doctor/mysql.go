package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
)

func examineMySQL(ctx context.Context, db *sql.DB, plan Plan) []Finding {
	v, err := variables(ctx, db)
	if err != nil {
		return []Finding{{Level: Bad, Store: "mysql", What: "does not answer: " + err.Error(),
			Why: "without it nothing is sold", Do: "start it, or mend --mysql"}}
	}
	found := []Finding{
		{Level: OK, Store: "mysql", What: "version " + v["version"]},
		flush(v), binlog(v), replication(v), connections(v, plan), writable(v),
	}
	if v["wsrep_on"] == "ON" {
		found = append(found, galera(v))
	}
	return found
}

func variables(ctx context.Context, db *sql.DB) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, `SHOW GLOBAL VARIABLES WHERE Variable_name IN
		('version', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', 'max_connections', 'read_only',
		 'wsrep_on', 'wsrep_sync_wait')`)
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
	if set != "1" {
		f.Level, f.Why = Bad, "a crash of the machine loses orders that were answered with 201"
		f.Do = "innodb_flush_log_at_trx_commit = 1"
	}
	return f
}

func binlog(v map[string]string) Finding {
	if v["log_bin"] != "ON" {
		return Finding{Level: OK, Store: "mysql", What: "no binary log"}
	}
	f := Finding{Level: OK, Store: "mysql", What: "sync_binlog " + v["sync_binlog"]}
	if v["sync_binlog"] != "1" {
		f.Level, f.Why = Warn, "after a crash a replica that takes over may lack orders that were answered with 201"
		f.Do = "sync_binlog = 1: about 12 % slower commits"
	}
	return f
}

// replication of READ COMMITTED, which every transaction of ours is.
func replication(v map[string]string) Finding {
	f := Finding{Level: OK, Store: "mysql", What: "binlog_format " + v["binlog_format"]}
	if v["log_bin"] == "ON" && v["binlog_format"] == "STATEMENT" {
		f.Level, f.Why, f.Do = Bad, "transactions are READ COMMITTED, which InnoDB refuses to log by statement", "binlog_format = ROW"
	}
	return f
}

func connections(v map[string]string, plan Plan) Finding {
	most, _ := strconv.Atoi(v["max_connections"])
	need := plan.Nodes * plan.MySQLConnections
	f := Finding{Level: OK, Store: "mysql", What: fmt.Sprintf("max_connections %d, of which %d nodes take up to %d", most, plan.Nodes, need)}
	if need >= most { // one is the operator's
		f.Level, f.Why, f.Do = Bad, "nodes are refused at the height of a sale", fmt.Sprintf("max_connections = %d or more", need+need/4+8)
	}
	return f
}

func writable(v map[string]string) Finding {
	f := Finding{Level: OK, Store: "mysql", What: "read_only " + v["read_only"]}
	if v["read_only"] == "ON" {
		f.Level, f.Why, f.Do = Bad, "this is a replica: nothing can be sold through it", "the primary's address in --mysql"
	}
	return f
}

// galera is a cluster of masters. What it commits is safe on all of them; that
// a read sees it is another matter.
func galera(v map[string]string) Finding {
	f := Finding{Level: OK, Store: "mysql", What: "Galera cluster, wsrep_sync_wait " + v["wsrep_sync_wait"]}
	if wait, err := strconv.Atoi(v["wsrep_sync_wait"]); err != nil || wait&1 == 0 {
		f.Level, f.Why = Warn, "a buyer who asks another node for an order that has just got a 201 may hear 404"
		f.Do = "wsrep_sync_wait = 1"
	}
	return f
}
