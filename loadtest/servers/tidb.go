package servers

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
)

// TiDBVariable is the environment variable with the path of a tidb-server to start
// instead of a MySQL.
const TiDBVariable = "FLASHSALE_TEST_TIDB"

// startTiDB starts a tidb-server with its storage engine for a single process. It does
// not sync commits to disk, and ignores MySQLConfig.
func startTiDB(ctx context.Context, path string) (*MySQL, error) {
	p, err := startProcess(ctx, program{
		name: "tidb-server", path: path, serving: askMySQL,
		args: func(p *Process) []string {
			return []string{
				"-store=unistore", "-path=" + p.data, "-temp-dir=" + p.dir, "-initialize-sql-file=" + mysqlInitFile(p),
				"-host=127.0.0.1", "-P=" + strconv.Itoa(p.port), "-socket=" + mysqlSocket(p), "-report-status=false",
				"-L=warn", "-log-slow-query=" + filepath.Join(p.dir, "slow"),
			}
		},
		initialise: func(_ context.Context, p *Process) error {
			return os.WriteFile(mysqlInitFile(p), []byte(mysqlInit), 0o600)
		},
	})
	if err != nil {
		return nil, err
	}
	return &MySQL{Process: p}, nil
}
