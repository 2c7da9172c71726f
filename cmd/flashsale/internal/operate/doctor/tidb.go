package doctor

import (
	"context"
	"database/sql"
)

// tidb is what differs on TiDB: it names settings of MySQL's that mean nothing to it.
func tidb(ctx context.Context, db *sql.DB, v map[string]string) []Finding {
	durable := Finding{Level: Unknown, Store: "mysql", What: "a commit is as durable as TiDB's storage",
		Why: "a 201 is no more durable than that; --store=unistore does not sync what it commits", Do: "TiKV, with three replicas"}
	checks := Finding{Level: OK, Store: "mysql", What: "tidb_enable_check_constraint " + v["tidb_enable_check_constraint"]}
	const why = "the database itself does not refuse to sell more than the total"
	found := []Finding{durable, checks.unless(v["tidb_enable_check_constraint"] == "ON", Bad, why,
		"SET GLOBAL tidb_enable_check_constraint = ON, before the tables are created")}

	// A table that was created while it was off has no CHECK.
	var without int
	err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = 'sales' AND NOT EXISTS (SELECT 1 FROM information_schema.check_constraints
			WHERE constraint_schema = DATABASE() AND constraint_name = 'sales_never_oversold')`).Scan(&without)
	if err != nil {
		return append(found, Finding{Level: Unknown, Store: "mysql", What: "whether sales has its CHECK: " + err.Error(), Why: why, Do: "SHOW CREATE TABLE sales"})
	}
	if without > 0 {
		found = append(found, Finding{Level: Bad, Store: "mysql", What: "sales has no CHECK", Why: why,
			Do: "ALTER TABLE sales ADD CONSTRAINT sales_never_oversold CHECK (sold >= 0 AND sold <= total)"})
	}
	return found
}
