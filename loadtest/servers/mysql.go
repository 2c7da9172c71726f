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

// account is the only user of the private server. It has no password and all
// privileges, and may connect from 127.0.0.1 only.
const account = "flashsale"

// MySQL is a private mariadbd or mysqld. It syncs each commit and the binary log to
// disk, as a primary with replicas does.
type MySQL struct {
	*Process
	Members []*MySQL // the other members of its group
}

// MySQLConfig configures a private MySQL.
type MySQLConfig struct {
	// ExtraArgs are appended to the command line and take precedence, such as
	// {"--innodb-buffer-pool-size=1G"}. With {"--skip-log-bin"}, a row is visible
	// before it is on disk.
	ExtraArgs []string
	// Env is added to the server's environment: {"LD_PRELOAD=/dir/fault.so"}.
	Env []string
	// SearchPath, if set, contains the folders of the programs. It replaces $PATH and
	// the usual folders.
	SearchPath []string
	// Group starts two more servers that form a replication group with this one, which
	// is the primary. It needs MySQL 8.0.27 or later.
	Group bool
}

// StartMySQL starts an empty mariadbd, or a mysqld if there is no mariadbd. If
// TiDBVariable is set, it starts a TiDB instead. It returns when the server answers.
// ctx applies to the start only. Close stops the server.
func StartMySQL(ctx context.Context, o MySQLConfig) (*MySQL, error) {
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

// DSN returns the data source name of a database for go-sql-driver, without parameters.
func (m *MySQL) DSN(database string) string {
	return fmt.Sprintf("%s@tcp(%s)/%s", account, m.Addr(), database)
}

var databaseName = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)

// NewDatabase creates an empty database and returns its DSN. An existing database of
// that name is dropped. A name has 1 to 64 characters from A-Z, a-z, 0-9 and _.
func (m *MySQL) NewDatabase(ctx context.Context, name string) (dsn string, err error) {
	if err := m.DropDatabase(ctx, name); err != nil {
		return "", err
	}
	if err := execSQL(ctx, m.Addr(), "CREATE DATABASE `"+name+"` CHARACTER SET utf8mb4"); err != nil {
		return "", fmt.Errorf("servers: create database %s: %w", name, err)
	}
	return m.DSN(name), nil
}

// DropDatabase removes a database. It returns nil if the database does not exist.
func (m *MySQL) DropDatabase(ctx context.Context, name string) error {
	if !databaseName.MatchString(name) {
		return fmt.Errorf("servers: %q is not a valid database name", name)
	}
	if err := execSQL(ctx, m.Addr(), "DROP DATABASE IF EXISTS `"+name+"`"); err != nil {
		return fmt.Errorf("servers: drop database %s: %w", name, err)
	}
	return nil
}

// askMySQL returns the version of the server at p's port, such as "MariaDB 10.11.19", "MySQL
// 8.0.44" or "TiDB 8.5.4". It fails if the server at the port is not p. The path of the socket
// identifies p.
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
		return "", fmt.Errorf("the server at %s is another process: its socket is %s", p.Addr(), socket)
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
	c.ReadTimeout = startPatience // each query also has the timeout of its context
	c.Logger = &mysql.NopLogger{} // connections fail while a server starts
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
