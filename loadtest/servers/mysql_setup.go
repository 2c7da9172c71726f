package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// mysqlInit runs at each start of the server, before it accepts connections. In a new
// data directory, only root exists, and root may not be able to connect over TCP. The
// statements are not written to the binary log, because each server of a replication
// runs its own.
const mysqlInit = "SET sql_log_bin = 0;\n" +
	"CREATE USER IF NOT EXISTS '" + account + "'@'127.0.0.1';\n" +
	"GRANT ALL ON *.* TO '" + account + "'@'127.0.0.1' WITH GRANT OPTION;\n"

func mysqlSocket(p *Process) string   { return filepath.Join(p.dir, "sock") }
func mysqlInitFile(p *Process) string { return filepath.Join(p.dir, "init.sql") }

// args returns arguments for MariaDB 10.4 or later and for MySQL 8. A server ignores an
// option that begins with "loose" and that it does not know.
func (o MySQLConfig) args(p *Process) []string {
	args := []string{
		"--no-defaults", // must be first; ignores the configuration of the machine
		"--datadir=" + p.data,
		"--socket=" + mysqlSocket(p),
		"--pid-file=" + filepath.Join(p.dir, "pid"),
		"--init-file=" + mysqlInitFile(p),
		"--skip-networking=0", "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(p.port),
		"--skip-name-resolve",
		"--loose-mysqlx=OFF", // the port of MySQL's second protocol is fixed
		"--max-connections=500",
		"--character-set-server=utf8mb4",
		// Sync each commit, or each group of commits, to disk, as in production.
		"--innodb-flush-log-at-trx-commit=1",
		// Use little memory, because several servers may run at once.
		"--innodb-buffer-pool-size=256M",
		"--performance-schema=OFF",
		"--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=1",
	}
	return append(append(args, asRoot()...), o.ExtraArgs...)
}

// asRoot lets root run the server as root, which the servers refuse by default. With
// another user, a server would lose the death signal (see childAttributes) and could
// not use its directory.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// isMariaDB reports whether the program is a MariaDB server, which may also be called
// mysqld.
func isMariaDB(ctx context.Context, path string) (bool, error) {
	version, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("servers: run %s --version: %w: %s", path, err, version)
	}
	return strings.Contains(string(version), "MariaDB"), nil
}

// initialiseMySQL creates the data directory. That takes MariaDB less than a second, so
// no template directory is kept.
func initialiseMySQL(ctx context.Context, p *Process, maria bool, folders []string) error {
	if err := os.WriteFile(mysqlInitFile(p), []byte(mysqlInit), 0o600); err != nil {
		return fmt.Errorf("servers: write the accounts of %s: %w", p.name, err)
	}
	path, args := p.path, []string{"--no-defaults", "--initialize-insecure", "--datadir=" + p.data}
	if maria {
		var err error
		path, err = find(folders, "apt-get install mariadb-server", "mariadb-install-db", "mysql_install_db")
		if err != nil {
			return err
		}
		args = []string{"--no-defaults", "--datadir=" + p.data,
			"--skip-name-resolve", "--skip-test-db", "--auth-root-authentication-method=normal"}
	}
	c, err := startChild(path, append(args, asRoot()...), p.logFile())
	if err != nil {
		return err
	}
	select {
	case <-c.exited:
	case <-ctx.Done():
		c.kill() // kills the children of the install script as well, because they share its process group
	}
	if c.err != nil {
		return fmt.Errorf("servers: %s: %w; its log ends:\n%s", path, c.err, c.logTail())
	}
	return nil
}
