package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/auth"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/orders"
)

// Four processes sweep the same overdue orders, and the one that keeps the sale
// is killed between two steps of giving their units back. Nothing in the program
// helps: its stores are held at the point where it is to die, and what they
// show by then says that it is there.
func TestKilledBetweenCloseAndMark(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	r := &restoring{client: &client{t: t}}
	for i := range 4 {
		r.nodes = append(r.nodes, startProcess(t, s, fmt.Sprint("node-", i+1), "--lease", "3s"))
	}
	r.target = balance(t, r.nodes...)
	options, err := redis.ParseURL(s.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	r.redis = redis.NewClient(options)
	t.Cleanup(func() { _ = r.redis.Close() })
	if r.mysql, err = sql.Open("mysql", s.SQL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.mysql.Close() })
	r.put("S")

	for _, dies := range []struct {
		when string
		// kill kills the keeper, or returns nil where it was not there: Redis was
		// held for so long that it had lost its lease.
		kill func(t *testing.T) *process
	}{
		{"after the close", func(t *testing.T) *process {
			k := r.keeper(t)
			r.hold(t)
			defer r.letGo(t)
			r.expire(t)
			if !k.keeps() {
				return nil
			}
			k.kill()
			return k
		}},
		{"after the release", func(t *testing.T) *process {
			k := r.keeper(t)
			r.hold(t)
			r.expire(t)
			row := r.holdRow(t) // nobody takes over, nor marks
			defer row()
			r.letGo(t)
			until(t, 30*time.Second, "the units are given back", func() bool { return r.holds(t) == 0 || !k.keeps() })
			if r.holds(t) > 0 {
				return nil
			}
			if n := r.count(t, "restored_at IS NOT NULL"); n != 0 {
				t.Fatalf("%d orders are marked already", n)
			}
			k.kill()
			return k
		}},
		{"after the mark", func(t *testing.T) *process {
			k := r.keeper(t)
			r.hold(t)
			r.expire(t)
			r.letGo(t)
			until(t, 30*time.Second, "all are marked", func() bool { return r.count(t, "restored_at IS NULL") == 0 })
			if !k.keeps() {
				return nil
			}
			k.kill()
			return k
		}},
	} {
		t.Run(dies.when, func(t *testing.T) {
			var dead *process
			for attempt := 0; dead == nil; attempt++ {
				if attempt == 5 {
					t.Fatal("the keeper could not be killed there")
				}
				r.buy(t, attempt)
				epochs := r.epochs(t)
				dead = dies.kill(t)
				var a orders.Audit
				until(t, 30*time.Second, "all units are back", func() bool {
					a = r.audit(t)
					return a.Restoring == 0 && a.Available == a.Total
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
			dead.start()
		})
	}
}

// restoring is the sale S of these nodes, and its stores.
type restoring struct {
	*client
	nodes []*process
	redis *redis.Client
	mysql *sql.DB
}

func (p *process) kill() { p.signal(syscall.SIGKILL); <-p.done }

func (p *process) keeps() bool { return p.metric("flashsale_keeper_skus") == 1 }

// buy sells 45 units in 30 orders.
func (r *restoring) buy(t *testing.T, attempt int) {
	t.Helper()
	for i := range 30 {
		body, key := fmt.Sprintf(`{"sku":"S","quantity":%d}`, 1+i%2), fmt.Sprint(t.Name(), attempt)
		until(t, 30*time.Second, "an order is durable", func() bool {
			return r.send("POST", "/v1/orders", fmt.Sprint("buyer-", i), false, body, key) == 201
		})
	}
}

// hold has Redis carry out nothing that writes.
func (r *restoring) hold(t *testing.T) {
	t.Helper()
	if err := r.redis.Do(t.Context(), "CLIENT", "PAUSE", 60_000, "WRITE").Err(); err != nil {
		t.Fatal(err)
	}
}

func (r *restoring) letGo(t *testing.T) {
	t.Helper()
	if err := r.redis.Do(t.Context(), "CLIENT", "UNPAUSE").Err(); err != nil {
		t.Fatal(err)
	}
}

// expire lets the payment windows be over and waits until the sweepers have
// closed every order, and no unit is back.
func (r *restoring) expire(t *testing.T) {
	t.Helper()
	if _, err := r.mysql.ExecContext(t.Context(), "UPDATE orders SET expires_at = created_at WHERE status = 'pending_payment'"); err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "all are closed", func() bool { return r.count(t, "status = 'pending_payment'") == 0 })
	if open, marked := r.holds(t), r.count(t, "restored_at IS NOT NULL"); open != 30 || marked != 0 {
		t.Fatalf("of 30 orders %d have holds, %d are marked", open, marked)
	}
}

// holdRow takes the sale's row, which every mark needs, until it is called.
func (r *restoring) holdRow(t *testing.T) (letGo func()) {
	t.Helper()
	tx, err := r.mysql.BeginTx(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "SELECT * FROM sales WHERE sku = 'S' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

func (r *restoring) count(t *testing.T, where string) (n int64) {
	t.Helper()
	if err := r.mysql.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders WHERE "+where).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *restoring) holds(t *testing.T) int64 {
	t.Helper()
	n, err := r.redis.HLen(t.Context(), "sale:{S}:holds").Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// epochs of the gate and of the database: a rebuild raises both.
func (r *restoring) epochs(t *testing.T) (both [2]int64) {
	t.Helper()
	var err error
	if both[0], err = r.redis.HGet(t.Context(), "sale:{S}", "epoch").Int64(); err != nil {
		t.Fatal(err)
	}
	if err = r.mysql.QueryRowContext(t.Context(), "SELECT epoch FROM sales WHERE sku = 'S'").Scan(&both[1]); err != nil {
		t.Fatal(err)
	}
	return both
}

// keeper is the node that keeps the sale.
func (r *restoring) keeper(t *testing.T) *process {
	t.Helper()
	at := -1
	until(t, 30*time.Second, "a node keeps the sale", func() bool {
		at = slices.IndexFunc(r.nodes, (*process).keeps)
		return at >= 0
	})
	return r.nodes[at]
}

func (r *restoring) audit(t *testing.T) (a orders.Audit) {
	t.Helper()
	verifier, err := auth.New([]byte(nodesSecret), nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := verifier.Sign("operator", true, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.target+"/v1/admin/sales/S/audit", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return a
	}
	defer func() { _ = res.Body.Close() }()
	_ = json.NewDecoder(res.Body).Decode(&a) // a zero audit is one that has not come to rest
	return a
}
