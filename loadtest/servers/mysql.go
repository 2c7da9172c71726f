package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// account is the one user, without a password, that the private server knows. It
// may do everything and connects from 127.0.0.1 only.
const account = "flashsale"

// MySQL is a private mariadbd or mysqld that syncs every commit to disk, and the
// binary log, as a server does that others can take over from.
type MySQL struct {
	*Process
	Members []*MySQL // of its group, but for itself
}

// MySQLOptions are the choices for a private MySQL.
type MySQLOptions struct {
	// ExtraArgs follow ours on the command line and win over them:
	// {"--innodb-buffer-pool-size=1G"}. With {"--skip-log-bin"} others can read a row
	// before it is on disk.
	ExtraArgs []string
	// Env is added to the server's environment: {"LD_PRELOAD=/dir/fault.so"}.
	Env []string
	// SearchPath, if set, is where the programs are looked for instead of $PATH
	// and the usual folders.
	SearchPath []string
	// Group has two more servers start, which make a replication group with it: it
	// is the primary. It needs MySQL 8.0.27 or later.
	Group bool
}

// StartMySQL starts a mariadbd, or where there is none a mysqld, with no
// database in it, and returns when it answers. ctx bounds the start only. Close
// ends it. Where TiDBVariable is set it is a TiDB.
func StartMySQL(ctx context.Context, o MySQLOptions) (*MySQL, error) {
	if tidb := os.Getenv(TiDBVariable); tidb != "" {
		return startTiDB(ctx, tidb)
	}
	if o.Group {
		return startGroup(ctx, o)
	}
	path, err := findMySQL(o.SearchPath)
	if err != nil {
		return nil, err
	}
	maria, err := isMariaDB(ctx, path)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(ctx, program{
		name:       filepath.Base(path),
		path:       path,
		args:       o.args,
		env:        o.Env,
		initialise: func(ctx context.Context, p *Process) error { return initialiseMySQL(ctx, p, maria, o.SearchPath) },
		serving:    askMySQL,
	})
	if err != nil {
		return nil, err
	}
	return &MySQL{Process: p}, nil
}

func findMySQL(folders []string) (string, error) {
	return find(folders, "apt-get install mariadb-server", "mariadbd", "mysqld")
}

// DSN is the data source name of a database, for go-sql-driver, without parameters.
func (m *MySQL) DSN(database string) string {
	return fmt.Sprintf("%s@tcp(%s)/%s", account, m.Addr(), database)
}

var databaseName = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)

// NewDatabase creates an empty database, throwing away one of that name, and
// returns its DSN. A name is 1 to 64 of A-Z, a-z, 0-9 and _.
func (m *MySQL) NewDatabase(ctx context.Context, name string) (dsn string, err error) {
	if err := m.DropDatabase(ctx, name); err != nil {
		return "", err
	}
	if err := execSQL(ctx, m.Addr(), "CREATE DATABASE `"+name+"` CHARACTER SET utf8mb4"); err != nil {
		return "", fmt.Errorf("servers: create database %s: %w", name, err)
	}
	return m.DSN(name), nil
}

// DropDatabase removes a database. One that is not there is no error.
func (m *MySQL) DropDatabase(ctx context.Context, name string) error {
	if !databaseName.MatchString(name) {
		return fmt.Errorf("servers: %q can't name a database", name)
	}
	if err := execSQL(ctx, m.Addr(), "DROP DATABASE IF EXISTS `"+name+"`"); err != nil {
		return fmt.Errorf("servers: drop database %s: %w", name, err)
	}
	return nil
}

// askMySQL returns the version of the server at p's port, "MariaDB 10.11.19",
// "MySQL 8.0.44" or "TiDB 8.5.4", if that is p: the socket in p's own directory tells it from a stranger's.
func askMySQL(ctx context.Context, p *Process, _ int) (version string, err error) {
	db, err := openSQL(p.Addr())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var socket string
	if err := db.QueryRowContext(ctx, "SELECT VERSION(), @@socket").Scan(&version, &socket); err != nil {
		return "", err
	}
	if socket != mysqlSocket(p) {
		return "", fmt.Errorf("the server at %s is not ours: its socket is %s", p.Addr(), socket)
	}
	if _, tidb, ok := strings.Cut(version, "-TiDB-v"); ok {
		return "TiDB " + tidb, nil
	}
	number, suffix, _ := strings.Cut(version, "-")
	if strings.Contains(suffix, "MariaDB") {
		return "MariaDB " + number, nil
	}
	return "MySQL " + number, nil
}

func execSQL(ctx context.Context, addr, statement string) (err error) {
	db, err := openSQL(addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, statement)
	return err
}

func openSQL(addr string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr = account, "tcp", addr
	c.ReadTimeout = startPatience // and each question has the bound of its context
	c.Logger = &mysql.NopLogger{} // while a server starts, broken connections are no news
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
