package servers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// LogReplicated makes a MariaDB write replicated transactions to its own binary log.
// Then other servers can follow it after it is promoted.
const LogReplicated = "--log-slave-updates"

// ReplicateFrom makes an empty MariaDB copy the primary at addr from the start of its binary
// log, and acknowledge each transaction once it is in the relay log.
func (m *MySQL) ReplicateFrom(ctx context.Context, addr string) error {
	host, port, _ := strings.Cut(addr, ":")
	return m.exec(ctx, "follow "+addr,
		// Use a new server id each time. A replica skips transactions with its own id,
		// so a rebuilt primary would skip the transactions that it wrote before.
		fmt.Sprint("SET GLOBAL server_id = ", 2+rand.Int32()/2),
		"SET GLOBAL rpl_semi_sync_slave_enabled = ON",
		// A replica can copy again what it loses, so it need not sync until it is
		// promoted.
		"SET GLOBAL sync_binlog = 0, innodb_flush_log_at_trx_commit = 0",
		fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = '%s', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos", host, port, account),
		"START SLAVE")
}

// RequireReplica makes a MariaDB wait until a replica has acknowledged a transaction, without
// a time limit. Before that, COMMIT is not answered and the rows are not visible.
// Without RequireReplica, it waits for ten seconds and then commits alone.
func (m *MySQL) RequireReplica(ctx context.Context) error {
	return m.exec(ctx, "wait for replicas",
		"SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'",
		"SET GLOBAL rpl_semi_sync_master_timeout = 18446744073709551615", // the maximum, in milliseconds
		"SET GLOBAL rpl_semi_sync_master_enabled = ON")
}

// Promote turns a replica into a primary. The replica stops receiving from the old primary,
// applies the remaining changes of its relay log, and stops following.
func (m *MySQL) Promote(ctx context.Context) error {
	if err := m.exec(ctx, "leave the primary", "STOP SLAVE IO_THREAD"); err != nil {
		return err
	}
	err := await(ctx, "wait for the relay log to be applied", func() error {
		applied, err := m.number(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Slave has read all relay log%'")
		if err == nil && applied != 1 {
			err = fmt.Errorf("%s has not applied its whole relay log", m.Addr())
		}
		return err
	})
	if err != nil {
		return err
	}
	return m.exec(ctx, "promote", "SET GLOBAL sync_binlog = 1, innodb_flush_log_at_trx_commit = 1", "STOP SLAVE", "RESET SLAVE ALL")
}

// TransactionCount returns the number of transactions in the binary log of a MariaDB since
// its replication began. It includes transactions that no replica has acknowledged.
func (m *MySQL) TransactionCount(ctx context.Context) (int64, error) {
	return m.number(ctx, "SELECT SUBSTRING_INDEX(@@gtid_current_pos, '-', -1) + 0")
}

func (m *MySQL) exec(ctx context.Context, what string, statements ...string) error {
	for _, statement := range statements {
		if err := execSQL(ctx, m.Addr(), statement); err != nil {
			return fmt.Errorf("servers: %s: %s: execute %s: %w", m.Addr(), what, statement, err)
		}
	}
	return nil
}

func (m *MySQL) number(ctx context.Context, query string) (n int64, err error) {
	db, err := openSQL(m.Addr())
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("servers: query the server at %s: %w", m.Addr(), err)
	}
	return n, nil
}
