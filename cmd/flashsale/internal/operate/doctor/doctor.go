// Package doctor looks at the two stores as they are set up, and says what to
// change before a sale depends on them, and why.
package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Levels of a Finding.
const (
	OK      = "ok"
	Unknown = "?"    // could not be read: the operator's to know
	Warn    = "warn" // a promise is kept, and something is worse than need be
	Bad     = "BAD"  // a promise may break, or a sale may stop
)

// A Finding is what one look has found.
type Finding struct {
	Level string `json:"level"`
	Store string `json:"store"`
	What  string `json:"what"`          // what was looked at, and how it is
	Why   string `json:"why,omitempty"` // what comes of it; empty where it is well
	Do    string `json:"do,omitempty"`  // what to change
}

// unless makes the Finding one of trouble, if it is not well.
func (f Finding) unless(well bool, level, why, do string) Finding {
	if !well {
		f.Level, f.Why, f.Do = level, why, do
	}
	return f
}

// Plan is how the stores are going to be used.
type Plan struct {
	Nodes            int // that will run
	RedisConnections int // of one node, at most
	MySQLConnections int // of one node, at most
	Sentinel         bool
}

// Examine looks at everything. It changes nothing, and asks a handful of
// commands of each store.
func Examine(ctx context.Context, rdb redis.UniversalClient, db *sql.DB, plan Plan) []Finding {
	found := examineRedis(ctx, rdb, plan)
	found = append(found, examineMySQL(ctx, db, plan)...)
	return append(found, examineClocks(ctx, rdb, db)...)
}

// apart is how far clocks may differ before somebody notices: a buyer whose
// order expires, by MySQL's, that long before or after the sale's window, which
// is by Redis's.
const apart = time.Second

// examineClocks compares the clocks that decide, and this machine's beside them.
func examineClocks(ctx context.Context, rdb redis.UniversalClient, db *sql.DB) []Finding {
	began := time.Now()
	theirs, err := rdb.Time(ctx).Result()
	if err != nil {
		return nil // said before
	}
	var mysql float64
	if err := db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP(NOW(3))").Scan(&mysql); err != nil {
		return nil
	}
	trip := time.Since(began)
	between := time.UnixMilli(int64(mysql * 1000)).Sub(theirs)
	here := began.Add(trip / 2).Sub(theirs)

	stores := Finding{Level: OK, Store: "clocks", What: "MySQL's is " + offset(between) + " Redis's"}
	mine := Finding{Level: OK, Store: "clocks", What: "this machine's is " + offset(here) + " Redis's"}
	return []Finding{
		stores.unless(between.Abs() <= apart+trip, Warn,
			"windows go by Redis's clock and expiry by MySQL's: buyers get more or less time to pay than they are told", "run NTP on both machines"),
		mine.unless(here.Abs() <= apart+trip, Warn,
			"nothing shared goes by a node's clock, but tokens expire by it and logs are read by it", "run NTP here, too"),
	}
}

func offset(d time.Duration) string {
	if d < 0 {
		return fmt.Sprintf("%s behind", -d.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s ahead of", d.Round(time.Millisecond))
}
