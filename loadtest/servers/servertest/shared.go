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

// shared is the MySQL that all tests of a process share. It takes a second to start,
// but a new database takes only a few milliseconds.
var shared sharedMySQL

type sharedMySQL struct {
	mu        sync.Mutex
	inMain    bool // Main stops the server
	server    *servers.MySQL
	err       error // why the server did not start; there is no second attempt
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

// newDatabase creates a database. The first call starts the server.
func (s *sharedMySQL) newDatabase(ctx context.Context) (server *servers.MySQL, name, dsn string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inMain {
		return nil, "", "", errors.New("servertest: the shared MySQL needs servertest.Main, which stops it: " +
			"add `func TestMain(m *testing.M) { servertest.Main(m) }` to the package")
	}
	if s.server == nil && s.err == nil {
		// The server outlives the first test that needs it. Tests do not kill it, so
		// its commits need not be on disk.
		o := servers.MySQLConfig{ExtraArgs: []string{"--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-doublewrite=0"}}
		if folder := os.Getenv("FLASHSALE_TEST_MYSQL9"); folder != "" { // folder of the mysqld of MySQL 9
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
