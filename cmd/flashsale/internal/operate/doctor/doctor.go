// Package doctor examines the settings of both stores, and reports what to change before a
// sale depends on them, and why.
package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"flashsale/orders/controller"
	"flashsale/orders/store"
)

// Levels of a Finding.
const (
	OK      = "ok"
	Unknown = "?"    // the setting could not be read; the operator must check it
	Warn    = "warn" // the promises hold, but another setting would work better
	Bad     = "BAD"  // a promise may break, or a sale may stop
)

// A Finding is the result of one check.
type Finding struct {
	Level string `json:"level"`
	Store string `json:"store"`
	What  string `json:"what"`          // the setting and its value
	Why   string `json:"why,omitempty"` // the consequence; empty if the level is OK
	Do    string `json:"do,omitempty"`  // the remedy
}

// unless returns f with a level and a remedy, unless ok is true.
func (f Finding) unless(ok bool, level, why, do string) Finding {
	if !ok {
		f.Level, f.Why, f.Do = level, why, do
	}
	return f
}

// A Plan describes how the stores will be used.
type Plan struct {
	Nodes            int // number of nodes
	RedisConnections int // largest number of connections of one node
	MySQLConnections int // largest number of connections of one node
	Sentinel         bool
	Refused          func(context.Context, *redis.Client) ([]string, error) // commands that a node needs and a master refuses
	Prefix           string                                                 // first part of the names in Redis
}

// Examine runs all checks. It changes nothing, and sends a few commands to each store.
func Examine(ctx context.Context, rdb redis.UniversalClient, db *sql.DB, plan Plan) []Finding {
	found := examineRedis(ctx, rdb, plan)
	found = append(found, examineMySQL(ctx, db, plan)...)
	found = append(found, owner(ctx, rdb, db, plan.Prefix)...)
	return append(found, examineClocks(ctx, rdb, db)...)
}

// owner checks that only the nodes of this database use Redis. It returns no finding if a store does
// not answer, which the other checks report.
func owner(ctx context.Context, rdb redis.UniversalClient, db *sql.DB, prefix string) []Finding {
	var proofs string
	err := db.QueryRowContext(ctx, "SELECT stats FROM nodes WHERE id = ?", store.OwnerRow).Scan(&proofs)
	if missing, ok := errors.AsType[*mysql.MySQLError](err); errors.Is(err, sql.ErrNoRows) || ok && missing.Number == 1146 {
		err = nil // before the first start there is no row, or no table
	}
	const why = "a keeper could commit the orders of the other database's buyers"
	do := "give this database a Redis or a --namespace of its own"
	found := Finding{Level: OK, Store: "redis", What: "belongs to no other database"}
	owner, noOwner := rdb.Get(ctx, prefix+controller.OwnerKey).Result() // "" if no node has run lately
	rival, noRival := rdb.Get(ctx, prefix+controller.RivalKey).Result()
	for _, fault := range []error{err, noOwner, noRival} {
		if fault != nil && !errors.Is(fault, redis.Nil) {
			return nil
		}
	}
	proof, _, _ := strings.Cut(owner, "\n")
	switch {
	case owner != "" && !slices.Contains(strings.Fields(proofs), proof):
		found.What = "belongs to " + owner[strings.LastIndex(owner, "\n")+1:]
	case rival != "":
		found.What, do = "is also used by "+rival[strings.LastIndex(rival, "\n")+1:], "stop it, or give its database a Redis or a --namespace of its own"
	default:
		return []Finding{found}
	}
	return []Finding{found.unless(false, Bad, why, do)}
}

// apart is the largest acceptable difference of two clocks. Orders expire by MySQL's clock
// and sales end by Redis's, so buyers notice a larger difference.
const apart = time.Second

// examineClocks compares the clocks of both stores and of this machine.
func examineClocks(ctx context.Context, rdb redis.UniversalClient, db *sql.DB) []Finding {
	began := time.Now()
	theirs, err := rdb.Time(ctx).Result()
	if err != nil {
		return nil // examineRedis has reported the error
	}
	var database float64
	if err := db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP(NOW(3))").Scan(&database); err != nil {
		return nil
	}
	trip := time.Since(began)
	between := time.UnixMilli(int64(database * 1000)).Sub(theirs)
	here := began.Add(trip / 2).Sub(theirs)

	stores := Finding{Level: OK, Store: "clocks", What: "MySQL's is " + offset(between) + " Redis's"}
	mine := Finding{Level: OK, Store: "clocks", What: "this machine's is " + offset(here) + " Redis's"}
	return []Finding{
		stores.unless(between.Abs() <= apart+trip, Warn,
			"a sale opens and closes by Redis's clock, and orders expire by MySQL's: buyers get more or less time to pay than they are told", "run NTP on both machines"),
		mine.unless(here.Abs() <= apart+trip, Warn,
			"tokens expire by a node's clock, and logs have its times", "run NTP on this machine too"),
	}
}

func offset(d time.Duration) string {
	if d < 0 {
		return fmt.Sprintf("%s behind", -d.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s ahead of", d.Round(time.Millisecond))
}
