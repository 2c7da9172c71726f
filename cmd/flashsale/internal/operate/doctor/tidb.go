package doctor

import (
	"context"
	"database/sql"
	"fmt"
)

// tidb runs the checks for TiDB, which ignores some of MySQL's settings.
func tidb(ctx context.Context, db *sql.DB, v map[string]string) []Finding {
	var without int // tables created while the setting was off, which have no CHECK
	err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = 'sales' AND NOT EXISTS (SELECT 1 FROM information_schema.check_constraints
			WHERE constraint_schema = DATABASE() AND constraint_name = 'sales_never_oversold')`).Scan(&without)
	const setting, why = "tidb_enable_check_constraint", "the database itself does not prevent selling more than the total"
	enforced := Finding{Level: OK, Store: "mysql", What: setting + " " + v[setting]}
	there := Finding{Level: OK, Store: "mysql", What: fmt.Sprintf("sales lacks its CHECK: %t", without > 0)}
	return []Finding{
		{Level: Unknown, Store: "mysql", What: "a commit is as durable as TiDB's storage",
			Why: "a 201 is as durable as that; --store=unistore does not sync its commits", Do: "TiKV, with three replicas"},
		enforced.unless(v[setting] == "ON", Bad, why, "SET GLOBAL "+setting+" = ON, before the tables are created"),
		there.unless(err == nil && without == 0, Bad, why,
			"ALTER TABLE sales ADD CONSTRAINT sales_never_oversold CHECK (sold >= 0 AND sold <= total)"),
	}
}
