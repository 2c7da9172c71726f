package app

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// galera starts two masters of one cluster and returns their DSNs.
func galera(t *testing.T) (one, two string) {
	t.Helper()
	servertest.OpenSQL(t, servers.KindReal) // skips where real servers are not wanted
	const library = "/usr/lib/galera/libgalera_smm.so"
	if _, err := os.Stat(library); err != nil {
		t.Skip("needs Galera (apt-get install galera-4): ", err)
	}
	var ports [4]string // of each master's group communication, and of what it is sent to catch up
	for i := range ports {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		check.Must(t, err)
		ports[i] = l.Addr().String()
		_ = l.Close()
	}
	master := func(i int, more ...string) *servers.MySQL {
		return servertest.OpenMySQL(t, servers.MySQLOptions{ExtraArgs: append([]string{
			"--wsrep-on=ON", "--wsrep-provider=" + library, "--wsrep-cluster-name=test", "--innodb-autoinc-lock-mode=2",
			"--wsrep-provider-options=gmcast.listen_addr=tcp://" + ports[i] + ";ist.recv_addr=tcp://" + ports[2+i] + ";gcache.size=32M;pc.recovery=false;pc.ignore_quorum=true",
			"--wsrep-node-address=" + ports[i], "--wsrep-sync-wait=1", "--wsrep-slave-threads=4",
			"--wsrep-sst-method=skip", // both are empty
		}, more...)})
	}
	first := master(0, "--wsrep-new-cluster", "--wsrep-cluster-address=gcomm://")
	second := master(1, "--wsrep-cluster-address=gcomm://"+ports[0])
	// Nothing was sent to it, and it knows that it lacks something. Both are empty:
	// it is told that it has what the first one has, and joins again.
	folder := ask(t, second, "SELECT 'datadir', @@datadir")
	second.Kill()
	check.Eventually(t, "the first one has noted three memberships: alone, both, alone", func() bool { return status(t, first, "wsrep_last_committed") == "3" })
	state := fmt.Sprintf("# GALERA saved state\nversion: 2.1\nuuid:    %s\nseqno:   %s\nsafe_to_bootstrap: 0\n",
		status(t, first, "wsrep_cluster_state_uuid"), status(t, first, "wsrep_last_committed"))
	check.Must(t, os.WriteFile(filepath.Join(folder, "grastate.dat"), []byte(state), 0o600))
	check.Must(t, second.Restart(t.Context()))
	for _, m := range []*servers.MySQL{first, second} {
		check.Eventually(t, "the two masters see each other", func() bool { return status(t, m, "wsrep_cluster_size") == "2" && status(t, m, "wsrep_ready") == "ON" })
	}
	check.Must(t, check.Err(first.NewDatabase(t.Context(), "flashsale")))
	return first.DSN("flashsale"), second.DSN("flashsale")
}

// status is what a master says of itself.
func status(t *testing.T, m *servers.MySQL, name string) string {
	t.Helper()
	return ask(t, m, "SHOW STATUS LIKE '"+name+"'")
}

// ask returns the second column of an answer.
func ask(t *testing.T, m *servers.MySQL, question string) (answer string) {
	t.Helper()
	var name string
	db, err := sql.Open("mysql", m.DSN(""))
	check.Must(t, err)
	defer func() { _ = db.Close() }()
	check.Must(t, db.QueryRowContext(t.Context(), question).Scan(&name, &answer))
	return answer
}

// On one cluster, for its masters take long to start.
func TestGalera(t *testing.T) {
	t.Parallel()
	one, two := galera(t)
	t.Run("loses no yes", func(t *testing.T) { losesNoYes(t, one, two) })
	t.Run("a payment is taken or refunded", func(t *testing.T) { takenOrRefunded(t, one, two) })
}

// Two nodes, each with a master of its own. The patience of a late payer's node
// ends, and it records a refund by its master, at the moment in which the keeper, by
// the other master, pays the order. Galera does not tell one master of rows that are
// only locked on the other.
func takenOrRefunded(t *testing.T, one, two string) {
	// The wait is brought near the time that a keeper takes on this machine, so that
	// now the payment, now the refund is first.
	wait, near := 30*time.Millisecond, 0
	for i := 0; i < 12 && near < 4; i++ {
		s := &servers.Stores{Kind: servers.KindReal, RedisURL: servertest.OpenRedis(t, servers.KindReal).URL, SQL: two}
		keeps := start(t, s, nil)
		sku := fmt.Sprint("S", i)
		keeps.put(sku, 1000, 1, 1)
		const payers = 40
		var where [payers]string
		var all sync.WaitGroup
		for b := range payers {
			all.Go(func() {
				where[b] = keeps.order(sku, fmt.Sprint("buyer-", b)).where()
			})
		}
		all.Wait()
		keeps.audited(sku, `"available":1000,"queued":0,"sold":0`, `"restoring":0`)
		sale := *s
		sale.SQL = one
		pays := start(t, &sale, func(c *Config) { c.Wait = wait })
		for b := range payers {
			all.Go(func() {
				pays.pay(fmt.Sprint("buyer-", b), where[b], fmt.Sprint("ref-", b))
			})
		}
		all.Wait()
		keeps.audited(sku, `"queued":0`, `"balanced":true`)
		refunds := keeps.send("GET", "/v1/admin/refunds?limit=1000", keeps.token("op", true), "").body
		taken, refunded := 0, 0
		for b := range payers {
			paid := keeps.send("GET", where[b], keeps.token(fmt.Sprint("buyer-", b), false), "").has(`"status":"paid"`)
			back := strings.Contains(refunds, strings.TrimPrefix(where[b], "/v1/orders/"))
			switch {
			case paid && back:
				t.Errorf("wait %v: the payment of %s was taken, and is listed as due back", wait, where[b])
			case paid:
				taken++
			case back:
				refunded++
			}
		}
		for _, n := range []*node{pays, keeps} {
			check.OK(t, n.stop())
		}
		t.Logf("wait %v: %d taken, %d refunded", wait, taken, refunded)
		switch {
		case taken == 0:
			wait = wait * 3 / 2
		case refunded == 0:
			wait = wait * 2 / 3
		default:
			near++
		}
	}
	if near == 0 {
		t.Error("they never came close")
	}
}

// A node sells by one master while the other one writes the sale's row, which undoes the
// node's transactions at any statement. Whoever is told yes has a row.
func losesNoYes(t *testing.T, one, two string) {
	n := start(t, &servers.Stores{Kind: servers.KindReal, RedisURL: servertest.OpenRedis(t, servers.KindReal).URL, SQL: one}, nil)
	n.put("S", 1_000_000, 1, 900)
	here, err := sql.Open("mysql", one)
	check.Must(t, err)
	t.Cleanup(func() { _ = here.Close() })
	other, err := sql.Open("mysql", two)
	check.Must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	undone := func() (count int) {
		var name string
		check.Must(t, here.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'wsrep_local_bf_aborts'").Scan(&name, &count))
		return count
	}
	before, yes := undone(), make([][]string, 32)
	var sold atomic.Int64
	var all sync.WaitGroup
	writing, stop := context.WithCancel(t.Context())
	all.Go(func() {
		for range time.Tick(10 * time.Millisecond) { // or no transaction comes to its end
			if writing.Err() != nil {
				return
			}
			_, _ = other.ExecContext(writing, "UPDATE sales SET updated_at = updated_at + INTERVAL 1 SECOND")
		}
	})
	var buyers sync.WaitGroup
	selling, enough := context.WithCancel(t.Context())
	for b := range yes {
		buyers.Go(func() {
			for i := 0; selling.Err() == nil; i++ {
				if a := n.order("S", fmt.Sprint("buyer-", b, "-", i)); a.status == 201 {
					yes[b] = append(yes[b], a.id())
					sold.Add(1)
				}
			}
		})
	}
	check.Eventually(t, "orders are made, and transactions are undone", func() bool { return sold.Load() >= 1000 && undone() >= before+5 })
	enough()
	buyers.Wait()
	stop()
	all.Wait()
	there := map[string]bool{}
	rows, err := here.QueryContext(t.Context(), "SELECT id FROM orders")
	check.Must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		check.Must(t, rows.Scan(&id))
		there[id] = true
	}
	check.Must(t, rows.Err())
	told, lost := slices.Concat(yes...), 0
	for _, id := range told {
		if !there[id] {
			lost++
		}
	}
	t.Logf("%d told yes, %d transactions undone", len(told), undone()-before)
	if lost > 0 {
		t.Errorf("%d of %d accepted orders have no row", lost, len(told))
	}
	n.audited("S", `"queued":0`, `"balanced":true`)
	check.OK(t, n.stop())
}
