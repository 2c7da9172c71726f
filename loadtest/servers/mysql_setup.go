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

// mysqlInit runs at every start of the server, before it accepts connections.
// (A fresh data directory knows root only, and over TCP not even that one,
// depending on the product.) It is not in the binary log: each server of a
// replication has it from its own file.
const mysqlInit = "SET sql_log_bin = 0;\n" +
	"CREATE USER IF NOT EXISTS '" + account + "'@'127.0.0.1';\n" +
	"GRANT ALL ON *.* TO '" + account + "'@'127.0.0.1' WITH GRANT OPTION;\n"

func mysqlSocket(p *Process) string   { return filepath.Join(p.dir, "sock") }
func mysqlInitFile(p *Process) string { return filepath.Join(p.dir, "init.sql") }

// args serves MariaDB 10.4 and later and MySQL 8 alike; an option with "loose"
// in front is ignored by the one that does not know it.
func (o MySQLOptions) args(p *Process) []string {
	args := []string{
		"--no-defaults", // first, or the machine's own settings are read
		"--datadir=" + p.data,
		"--socket=" + mysqlSocket(p),
		"--pid-file=" + filepath.Join(p.dir, "pid"),
		"--init-file=" + mysqlInitFile(p),
		"--skip-networking=0", "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(p.port),
		"--skip-name-resolve",
		"--loose-mysqlx=OFF", // MySQL's second protocol has a fixed port
		"--max-connections=500",
		"--character-set-server=utf8mb4",
		// Durable as in production: one sync to disk per commit, or per group of them.
		"--innodb-flush-log-at-trx-commit=1",
		// Small, since several may run side by side.
		"--innodb-buffer-pool-size=256M",
		"--performance-schema=OFF",
		"--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=1",
	}
	return append(append(args, asRoot()...), o.ExtraArgs...)
}

// asRoot lets root run the server as root. The servers refuse that without being
// told, and with another user they would lose the signal that ends them with us
// (see childAttributes); and the directory belongs to root.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// isMariaDB tells the two products apart: Debian calls MariaDB's server mysqld, too.
func isMariaDB(ctx context.Context, path string) (bool, error) {
	version, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("servers: %s --version: %w: %s", path, err, version)
	}
	return strings.Contains(string(version), "MariaDB"), nil
}

// initialiseMySQL makes the data directory. It takes MariaDB less than a second,
// so there is no template to be kept, copied and distrusted.
func initialiseMySQL(ctx context.Context, p *Process, maria bool, folders []string) error {
	if err := os.WriteFile(mysqlInitFile(p), []byte(mysqlInit), 0o600); err != nil {
		return fmt.Errorf("servers: accounts for %s: %w", p.name, err)
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
		c.kill() // and with it what the install script runs: they share a process group
	}
	if c.err != nil {
		return fmt.Errorf("servers: %s: %w, its log ends:\n%s", path, c.err, c.logTail())
	}
	return nil
}
