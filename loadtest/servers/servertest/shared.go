package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"flashsale/loadtest/servers"
)

// shared is the one MySQL of a test process: it takes about a second to start,
// a database on it a few milliseconds.
var shared sharedMySQL

type sharedMySQL struct {
	mu        sync.Mutex
	inMain    bool // Main will stop it
	server    *servers.MySQL
	err       error // why it did not start; not tried twice
	databases int
}

// Main calls Prepare, runs the tests of a package, stops the SQL server that they share,
// and exits. A package that opens real SQL databases needs it:
//
//	func TestMain(m *testing.M) { servertest.Main(m) }
func Main(m *testing.M) {
	shared.mu.Lock()
	shared.inMain = true
	shared.mu.Unlock()
	Prepare()
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// newDatabase makes a fresh database, starting the server for the first one.
func (s *sharedMySQL) newDatabase(ctx context.Context) (server *servers.MySQL, name, dsn string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inMain {
		return nil, "", "", errors.New("servertest: nobody would stop the shared MySQL: " +
			"give the package `func TestMain(m *testing.M) { servertest.Main(m) }`")
	}
	if s.server == nil && s.err == nil {
		// It outlives the test that happens to be the first to ask, and nobody kills
		// it: there is no crash for which its commits would have to be on disk.
		o := servers.MySQLOptions{ExtraArgs: []string{"--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-doublewrite=0"}}
		if folder := os.Getenv("FLASHSALE_TEST_MYSQL9"); folder != "" { // with the mysqld of MySQL 9
			o.SearchPath, o.Group = []string{folder}, true
		}
		s.server, s.err = servers.StartMySQL(context.WithoutCancel(ctx), o)
	}
	if s.err != nil {
		return nil, "", "", s.err
	}
	s.databases++
	name = fmt.Sprintf("test_%d", s.databases)
	dsn, err = s.server.NewDatabase(ctx, name)
	return s.server, name, dsn, err
}

func (s *sharedMySQL) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}
