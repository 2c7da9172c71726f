package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers/servertest/check"
)

// Four processes sweep the same overdue orders, and the one that keeps the sale
// is killed between two steps of giving their units back. Nothing in the program
// helps: its stores are held at the point where it is to die, and what they
// show by then says that it is there.
func TestKilledBetweenCloseAndMark(t *testing.T) {
	t.Parallel()
	r := &restoring{cluster: startNodes(t, 4)}
	r.redis = lab.Redis(r.Stores.Redis.Addr())
	t.Cleanup(func() { _ = r.redis.Close() })
	var err error
	r.mysql, err = sql.Open("mysql", r.Stores.SQL)
	check.Must(t, err)
	t.Cleanup(func() { _ = r.mysql.Close() })
	r.put(t, "S")

	for _, dies := range []struct {
		when string
		// kill kills the keeper, or returns nil where it was not there: Redis was
		// held for so long that it had lost its lease.
		kill func(t *testing.T) *lab.Node
	}{
		{"after the close", func(t *testing.T) *lab.Node {
			k := r.keeper(t)
			r.hold(t)
			defer r.letGo(t)
			r.expire(t)
			if !keeps(t, k) {
				return nil
			}
			k.Kill()
			return k
		}},
		{"after the release", func(t *testing.T) *lab.Node {
			k := r.keeper(t)
			r.hold(t)
			r.expire(t)
			row := r.holdRow(t) // nobody takes over, nor marks
			defer row()
			r.letGo(t)
			check.Eventually(t, "the units are given back", func() bool { return r.holds(t) == 0 || !keeps(t, k) })
			if r.holds(t) > 0 {
				return nil
			}
			if n := r.count(t, "restored_at IS NOT NULL"); n != 0 {
				t.Fatalf("%d orders are marked already", n)
			}
			k.Kill()
			return k
		}},
		{"after the mark", func(t *testing.T) *lab.Node {
			k := r.keeper(t)
			r.hold(t)
			r.expire(t)
			r.letGo(t)
			check.Eventually(t, "all are marked", func() bool { return r.count(t, "restored_at IS NULL") == 0 })
			if !keeps(t, k) {
				return nil
			}
			k.Kill()
			return k
		}},
	} {
		t.Run(dies.when, func(t *testing.T) {
			var dead *lab.Node
			operator := r.operator(t)
			for attempt := 0; dead == nil; attempt++ {
				if attempt == 5 {
					t.Fatal("the keeper could not be killed there")
				}
				r.buy(t, attempt)
				epochs := r.epochs(t)
				dead = dies.kill(t)
				var a api.Audit
				check.Eventually(t, "all units are back", func() bool {
					a, _ = operator.Audit(t.Context(), "S")
					return a.Total > 0 && a.Restoring == 0 && a.Available == a.Total
				})
				if !a.Balanced || a.Sold != 0 || a.Held != 0 || r.holds(t) != 0 || r.count(t, "restored_at IS NULL") != 0 {
					t.Errorf("%+v", a)
				}
				if now := r.epochs(t); now != epochs { // and nobody had to repair it
					t.Errorf("the gate was rebuilt: epochs %v, then %v", epochs, now)
				}
				if _, err := r.mysql.ExecContext(t.Context(), "DELETE FROM orders"); err != nil {
					t.Fatal(err)
				}
			}
			check.Must(t, dead.Restart(t.Context()))
		})
	}
}

// restoring is the sale S of these nodes, and its stores.
type restoring struct {
	cluster
	redis *redis.Client
	mysql *sql.DB
}

func keeps(t *testing.T, n *lab.Node) bool { return n.Metric(t.Context(), kept) == 1 }

// buy sells 45 units in 30 orders.
func (r *restoring) buy(t *testing.T, attempt int) {
	t.Helper()
	for i := range 30 {
		key := fmt.Sprint(t.Name(), attempt)
		check.Eventually(t, "an order is durable", func() bool {
			return r.order(t, "S", fmt.Sprint("buyer-", i), key, 1+i%2) == 201
		})
	}
}

// hold has Redis carry out nothing that writes.
func (r *restoring) hold(t *testing.T) {
	t.Helper()
	check.Must(t, r.redis.Do(t.Context(), "CLIENT", "PAUSE", 60_000, "WRITE").Err())
}

func (r *restoring) letGo(t *testing.T) {
	t.Helper()
	check.Must(t, r.redis.Do(t.Context(), "CLIENT", "UNPAUSE").Err())
}

// expire lets the payment windows be over and waits until the sweepers have
// closed every order, and no unit is back.
func (r *restoring) expire(t *testing.T) {
	t.Helper()
	if _, err := r.mysql.ExecContext(t.Context(), "UPDATE orders SET expires_at = created_at WHERE status = 'pending_payment'"); err != nil {
		t.Fatal(err)
	}
	check.Eventually(t, "all are closed", func() bool { return r.count(t, "status = 'pending_payment'") == 0 })
	if open, marked := r.holds(t), r.count(t, "restored_at IS NOT NULL"); open != 30 || marked != 0 {
		t.Fatalf("of 30 orders %d have holds, %d are marked", open, marked)
	}
}

// holdRow takes the sale's row, which every mark needs, until it is called.
func (r *restoring) holdRow(t *testing.T) (letGo func()) {
	t.Helper()
	tx, err := r.mysql.BeginTx(context.WithoutCancel(t.Context()), nil)
	check.Must(t, err)
	if _, err := tx.ExecContext(t.Context(), "SELECT * FROM sales WHERE sku = 'S' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

func (r *restoring) count(t *testing.T, where string) (n int64) {
	t.Helper()
	check.Must(t, r.mysql.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders WHERE "+where).Scan(&n))
	return n
}

func (r *restoring) holds(t *testing.T) int64 {
	t.Helper()
	n, err := r.redis.HLen(t.Context(), "sale:{S}:holds").Result()
	check.Must(t, err)
	return n
}

// epochs of the gate and of the database: a rebuild raises both.
func (r *restoring) epochs(t *testing.T) (both [2]int64) {
	t.Helper()
	var err error
	both[0], err = r.redis.HGet(t.Context(), "sale:{S}", "epoch").Int64()
	check.Must(t, err)
	check.Must(t, r.mysql.QueryRowContext(t.Context(), "SELECT epoch FROM sales WHERE sku = 'S'").Scan(&both[1]))
	return both
}

// keeper is the node that keeps the sale.
func (r *restoring) keeper(t *testing.T) *lab.Node {
	t.Helper()
	at := -1
	check.Eventually(t, "a node keeps the sale", func() bool {
		at = slices.IndexFunc(r.Nodes, func(n *lab.Node) bool { return keeps(t, n) })
		return at >= 0
	})
	return r.Nodes[at]
}
