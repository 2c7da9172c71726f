package servers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// LogReplicated is the argument of a MariaDB whose binary log has what it copies,
// too, so that others can follow it once it is promoted.
const LogReplicated = "--log-slave-updates"

// Follow has a MariaDB without a database of its own copy the primary at addr,
// from the first entry of its binary log, and acknowledge each transaction that
// it has in its relay log.
func (m *MySQL) Follow(ctx context.Context, addr string) error {
	host, port, _ := strings.Cut(addr, ":")
	return m.exec(ctx, "follow "+addr,
		// A new number each time: a replica skips what a server with its number has
		// written, and a primary that is rebuilt would skip what it wrote itself.
		fmt.Sprint("SET GLOBAL server_id = ", 2+rand.Int32()/2),
		"SET GLOBAL rpl_semi_sync_slave_enabled = ON",
		// What it copies it can copy again: until it is promoted, it need not sync.
		"SET GLOBAL sync_binlog = 0, innodb_flush_log_at_trx_commit = 0",
		fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = '%s', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos", host, port, account),
		"START SLAVE")
}

// Lossless has a MariaDB answer no COMMIT, and show its rows to nobody, before a
// replica has acknowledged it, however long that takes. Without these settings it
// waits for ten seconds, and then goes on alone.
func (m *MySQL) Lossless(ctx context.Context) error {
	return m.exec(ctx, "wait for replicas",
		"SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'",
		"SET GLOBAL rpl_semi_sync_master_timeout = 18446744073709551615", // the most there is, in milliseconds
		"SET GLOBAL rpl_semi_sync_master_enabled = ON")
}

// Promote makes a primary of a replica: it hears nothing more of the old one,
// applies what it has heard, and then follows nobody.
func (m *MySQL) Promote(ctx context.Context) error {
	if err := m.exec(ctx, "leave the primary", "STOP SLAVE IO_THREAD"); err != nil {
		return err
	}
	err := await(ctx, "the relay log is applied", func() error {
		applied, err := m.number(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Slave has read all relay log%'")
		if err == nil && applied != 1 {
			err = fmt.Errorf("%s is not done", m.Addr())
		}
		return err
	})
	if err != nil {
		return err
	}
	return m.exec(ctx, "promote", "SET GLOBAL sync_binlog = 1, innodb_flush_log_at_trx_commit = 1", "STOP SLAVE", "RESET SLAVE ALL")
}

// Transactions is how many a MariaDB has in its binary log since the first of
// its replication, those included that no replica has acknowledged.
func (m *MySQL) Transactions(ctx context.Context) (int64, error) {
	return m.number(ctx, "SELECT SUBSTRING_INDEX(@@gtid_current_pos, '-', -1) + 0")
}

func (m *MySQL) exec(ctx context.Context, what string, statements ...string) error {
	for _, statement := range statements {
		if err := execSQL(ctx, m.Addr(), statement); err != nil {
			return fmt.Errorf("servers: have %s %s: %s: %w", m.Addr(), what, statement, err)
		}
	}
	return nil
}

// number is the answer to a query for one.
func (m *MySQL) number(ctx context.Context, query string) (n int64, err error) {
	db, err := openSQL(m.Addr())
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("servers: ask %s: %w", m.Addr(), err)
	}
	return n, nil
}
