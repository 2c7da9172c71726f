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

// galera starts a cluster of two masters and returns their DSNs.
func galera(t *testing.T) (one, two string) {
	t.Helper()
	servertest.OpenSQL(t, servers.KindReal) // skips the test if real servers are off
	const library = "/usr/lib/galera/libgalera_smm.so"
	if _, err := os.Stat(library); err != nil {
		t.Skip("needs Galera (apt-get install galera-4): ", err)
	}
	var ports [4]string // group communication of both masters, then state transfer of both
	for i := range ports {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		check.Must(t, err)
		ports[i] = l.Addr().String()
		_ = l.Close()
	}
	// On a busy machine, a master may exit with "Failed to set thread schedparams".
	starts := func(start func() error) {
		check.Eventually(t, "a master starts", func() bool { return start() == nil })
	}
	master := func(i int, more ...string) (m *servers.MySQL) {
		cfg := servers.MySQLConfig{ExtraArgs: append([]string{
			"--wsrep-on=ON", "--wsrep-provider=" + library, "--wsrep-cluster-name=test", "--innodb-autoinc-lock-mode=2",
			"--wsrep-provider-options=gmcast.listen_addr=tcp://" + ports[i] + ";ist.recv_addr=tcp://" + ports[2+i] + ";gcache.size=32M;pc.recovery=false;pc.ignore_quorum=true",
			"--wsrep-node-address=" + ports[i], "--wsrep-sync-wait=1", "--wsrep-slave-threads=4",
			"--wsrep-sst-method=skip", // both masters are empty
		}, more...)}
		starts(func() (err error) {
			m, err = servers.StartMySQL(check.Context(t), cfg)
			return err
		})
		t.Cleanup(func() { _ = m.Close() })
		return m
	}
	first := master(0, "--wsrep-new-cluster", "--wsrep-cluster-address=gcomm://")
	second := master(1, "--wsrep-cluster-address=gcomm://"+ports[0])
	// The second master becomes ready only if its state is the first master's. State transfers
	// are off, and both masters are empty. Therefore the test copies the first master's position
	// to the grastate.dat of the second.
	folder := ask(t, second, "SELECT 'datadir', @@datadir")
	second.Kill()
	check.Eventually(t, "the first master has committed three memberships", func() bool { return status(t, first, "wsrep_last_committed") == "3" })
	state := fmt.Sprintf("# GALERA saved state\nversion: 2.1\nuuid:    %s\nseqno:   %s\nsafe_to_bootstrap: 0\n",
		status(t, first, "wsrep_cluster_state_uuid"), status(t, first, "wsrep_last_committed"))
	check.Must(t, os.WriteFile(filepath.Join(folder, "grastate.dat"), []byte(state), 0o600))
	starts(func() error { return second.Restart(t.Context()) })
	for _, m := range []*servers.MySQL{first, second} {
		check.Eventually(t, "the two masters see each other", func() bool { return status(t, m, "wsrep_cluster_size") == "2" && status(t, m, "wsrep_ready") == "ON" })
	}
	check.Must(t, check.Err(first.NewDatabase(t.Context(), "flashsale")))
	return first.DSN("flashsale"), second.DSN("flashsale")
}

func status(t *testing.T, m *servers.MySQL, name string) string {
	t.Helper()
	return ask(t, m, "SHOW STATUS LIKE '"+name+"'")
}

// ask returns the second column of a query's only row.
func ask(t *testing.T, m *servers.MySQL, question string) (answer string) {
	t.Helper()
	var name string
	db, err := sql.Open("mysql", m.DSN(""))
	check.Must(t, err)
	defer func() { _ = db.Close() }()
	check.Must(t, db.QueryRowContext(t.Context(), question).Scan(&name, &answer))
	return answer
}

// The subtests share a cluster, because its masters start slowly.
func TestGalera(t *testing.T) {
	t.Parallel()
	one, two := galera(t)
	t.Run("no acceptance is lost", func(t *testing.T) { losesNoAcceptance(t, one, two) })
	t.Run("a payment is taken or refunded", func(t *testing.T) { takenOrRefunded(t, one, two) })
}

// takenOrRefunded uses two nodes with different masters. One node gives up a late payment and
// records a refund while the keeper, on the other master, pays the order. Galera does not
// replicate row locks, so both transactions can run at the same time. Only one may commit.
func takenOrRefunded(t *testing.T, one, two string) {
	// wait approaches the time that the keeper takes, so that both outcomes occur.
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
				where[b] = keeps.sold(sku, fmt.Sprint("buyer-", b)).where()
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
				t.Errorf("payment that waited %v: the payment of %s is both taken and refunded, want one of both", wait, where[b])
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
		t.Error("payments near the timeout: got one outcome in every round, want a round with taken and refunded payments")
	}
}

// losesNoAcceptance sells on one master while the other master updates the sale's row. These
// conflicts abort the node's transactions at any statement. Each accepted order has a row, and is in
// the feed, which nodes with different masters number and report.
func losesNoAcceptance(t *testing.T, one, two string) {
	s := &servers.Stores{Kind: servers.KindReal, RedisURL: servertest.OpenRedis(t, servers.KindReal).URL, SQL: one}
	n := start(t, s, withChanges)
	onTwo := *s
	onTwo.SQL = two
	reads := []*node{n, start(t, &onTwo, withChanges)}
	n.put("S", 1_000_000, 1, 900)
	here, err := sql.Open("mysql", one)
	check.Must(t, err)
	t.Cleanup(func() { _ = here.Close() })
	other, err := sql.Open("mysql", two)
	check.Must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	aborted := func() (count int) {
		var name string
		check.Must(t, here.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'wsrep_local_bf_aborts'").Scan(&name, &count))
		return count
	}
	before, accepted := aborted(), make([][]string, 32)
	var sold atomic.Int64
	var all sync.WaitGroup
	writing, stop := context.WithCancel(t.Context())
	all.Go(func() {
		for range time.Tick(10 * time.Millisecond) { // a faster loop would abort every transaction
			if writing.Err() != nil {
				return
			}
			_, _ = other.ExecContext(writing, "UPDATE sales SET updated_at = updated_at + INTERVAL 1 SECOND")
		}
	})
	var buyers sync.WaitGroup
	selling, enough := context.WithCancel(t.Context())
	for b := range accepted {
		buyers.Go(func() {
			for i := 0; selling.Err() == nil; i++ {
				if a := n.order("S", fmt.Sprint("buyer-", b, "-", i)); a.status == 201 {
					accepted[b] = append(accepted[b], a.id())
					sold.Add(1)
				}
			}
		})
	}
	check.Eventually(t, "there are 1000 orders and 5 aborted transactions", func() bool { return sold.Load() >= 1000 && aborted() >= before+5 })
	enough()
	buyers.Wait()
	stop()
	all.Wait()
	stored := map[string]bool{}
	rows, err := here.QueryContext(t.Context(), "SELECT id FROM orders")
	check.Must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		check.Must(t, rows.Scan(&id))
		stored[id] = true
	}
	check.Must(t, rows.Err())
	ids, lost := slices.Concat(accepted...), 0
	for _, id := range ids {
		if !stored[id] {
			lost++
		}
	}
	t.Logf("%d accepted orders, %d aborted transactions", len(ids), aborted()-before)
	if lost > 0 {
		t.Errorf("accepted orders after the crash of a Galera master: %d of %d have no row, want a row for each", lost, len(ids))
	}
	n.audited("S", `"queued":0`, `"balanced":true`)
	reported, cursor, turn := map[string]bool{}, "", 0
	check.Eventually(t, "the feed has reported all orders", func() bool {
		page := reads[turn%2].changes(cursor, 1000)
		for _, c := range page.Changes {
			reported[c.Order.ID] = true
		}
		cursor, turn = page.Next, turn+1
		return !slices.ContainsFunc(ids, func(id string) bool { return !reported[id] })
	})
	for _, n := range reads {
		check.OK(t, n.stop())
	}
}
