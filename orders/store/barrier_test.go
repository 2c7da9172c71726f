package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/inventory/coalesce"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// A replaced database is a server and its successor, which has the same account and database.
// The account may not write to a server with read_only. Both servers have the sale S.
type replaced struct {
	mu         sync.Mutex
	over       bool   // new connections go to the successor
	addr, next string // addresses of the two servers
	old, new   *Store // stores of an account that may do everything
}

// replace starts the two servers.
func replace(t *testing.T) *replaced {
	t.Helper()
	servertest.Open(t, servers.KindReal) // skips the test if there is no server
	var r replaced
	for _, at := range []struct {
		addr  *string
		store **Store
	}{{&r.addr, &r.old}, {&r.next, &r.new}} {
		m, err := servers.StartMySQL(check.Context(t), servers.MySQLConfig{})
		check.Must(t, err)
		t.Cleanup(func() { _ = m.Close() })
		dsn, err := m.NewDatabase(t.Context(), "flashsale")
		check.Must(t, err)
		*at.addr, *at.store = m.Addr(), openStore(t, dsn)
		check.Must(t, check.Err((*at.store).PutSale(t.Context(), kit.Sale("S", 10, 10))))
		kit.Exec(t, (*at.store).DB, "CREATE USER shop@'127.0.0.1'")
		kit.Exec(t, (*at.store).DB, "GRANT ALL ON flashsale.* TO shop@'127.0.0.1'")
	}
	return &r
}

// open returns a store whose connections go to the server that is in charge, as if its name in
// DNS was changed. wrap wraps each connection.
func (r *replaced) open(t *testing.T, wrap func(net.Conn) net.Conn) *Store {
	t.Helper()
	network := "replaced" + strings.Map(func(c rune) rune { return max(c, '0') }, t.Name())
	mysqldriver.RegisterDialContext(network, func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.address())
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	})
	store, err := Open("shop@"+network+"(flashsale)/flashsale", Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func (r *replaced) address() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return r.next
	}
	return r.addr
}

func (r *replaced) set(over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = over
}

// A failingOver connection to the old server serves one read of orders. Then the connection is
// lost and the successor is in charge, before the barrier can be written.
type failingOver struct {
	net.Conn
	*replaced
	reads, lost bool
}

func (c *failingOver) Write(b []byte) (int, error) {
	if c.lost {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	c.reads = bytes.Contains(b, []byte("idempotency_key")) || bytes.Contains(b, []byte("SELECT * FROM `orders`"))
	return c.Conn.Write(b)
}

func (c *failingOver) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.reads && c.RemoteAddr().String() == c.addr {
		c.set(true)
		c.lost = true
	}
	return n, err
}

// A read at a server that was replaced is no answer, although the barrier would succeed at its
// successor. The old server lacks an order that the successor has.
func TestBarrierIsForTheServerOfTheRead(t *testing.T) {
	t.Parallel()
	r := replace(t)
	id := kit.InsertPendingOrders(t, r.new.DB, 1)[0]
	kit.Exec(t, r.new.DB, "UPDATE orders SET idempotency_key = 'key-0' WHERE id = ?", id)
	for name, read := range map[string]func(s *Store) (*orders.Order, error){
		"by key": func(s *Store) (*orders.Order, error) {
			o, _, err := s.Lookup(t.Context(), "S", "buyer-0", "key-0")
			return o, err
		},
		"page": func(s *Store) (*orders.Order, error) {
			list, _, err := s.OrdersOfBuyer(t.Context(), "buyer-0", 10, "")
			if err != nil || len(list) == 0 {
				return nil, err
			}
			return &list[0], nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.set(false)
			store := r.open(t, func(c net.Conn) net.Conn { return &failingOver{Conn: c, replaced: r} })
			o, err := read(store)
			if err == nil && o == nil {
				t.Error("read order: got no order and no error, want the successor's order or ErrUnavailable")
			}
			if r.address() != r.next {
				t.Error("the old server was not replaced")
			}
			check.Eventually(t, "the order is read at the successor", func() bool {
				o, err = read(store)
				return err == nil && o != nil && o.ID == id
			})
		})
	}
}

// After a planned switch-over the old server stays up with read_only. Reads and writes move to
// its successor, although the sessions at the old server still answer.
func TestSessionsLeaveAReplacedServer(t *testing.T) {
	t.Parallel()
	r := replace(t)
	store := r.open(t, func(c net.Conn) net.Conn { return c })
	var all sync.WaitGroup
	for range 20 { // open several sessions at the old server
		all.Go(func() { check.OK(t, check.Err(store.Sale(t.Context(), "S"))) })
	}
	all.Wait()
	kit.Exec(t, r.old.DB, "SET GLOBAL read_only = 1")
	r.set(true)
	id := kit.InsertPendingOrders(t, r.new.DB, 1)[0]
	if o, err := store.OrderOf(t.Context(), "buyer-0", id); err != nil || o.ID != id {
		t.Errorf("read the order: got %+v, %v, want the successor's order", o, err)
	}
	if o, err := store.Pay(t.Context(), "buyer-0", id, "ref"); err != nil || o.Status != orders.Paid {
		t.Errorf("pay the order: got %+v, %v, want it paid", o, err)
	}
}

// A call that has timed out may still be running. After its current read it starts no other read,
// and it does not use the batch, which coalesce has cleared.
func TestReadsAfterTheTimeout(t *testing.T) {
	store := openStore(t, servertest.OpenSQL(t, servers.KindReal))
	reads, release := make(chan struct{}), make(chan struct{})
	batch := []*coalesce.Caller[read, result]{{Q: func(*gorm.DB) (any, error) {
		close(reads)
		<-release
		return nil, nil
	}}, {Q: func(*gorm.DB) (any, error) {
		t.Error("the second read began after the end of the call")
		return nil, nil
	}}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reads
		cancel()
	}()
	store.Reads.Call(ctx, orderLane, batch)
	check.Is(t, batch[0].Err, orders.ErrUnavailable)
	clear(batch) // as coalesce does
	close(release)
	check.Eventually(t, "the session is returned", func() bool { return store.Stats().InUse == 0 })
}

// A payment of an order whose sale is missing is no "not found": the session that locks the sale
// may be at a replaced server, which lacks new sales.
func TestMissingSaleOfAKnownOrder(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 2)
		kit.MakeOverdue(t, store.DB, ids[0])
		kit.Exec(t, store.DB, "DELETE FROM sales")
		for what, call := range map[string]func() error{
			"pay":    func() error { return check.Err(store.Pay(t.Context(), "buyer-0", ids[0], "ref")) },
			"cancel": func() error { return check.Err(store.Cancel(t.Context(), "buyer-1", ids[1])) },
			"order": func() error {
				return check.Err(store.CommitDirect(t.Context(), "S", []inventory.QueuedOrder{kit.QueuedOrder("q", "bob", "", 1)}))
			},
		} {
			if err := call(); !errors.Is(err, orders.ErrUnavailable) || errors.Is(err, orders.ErrNotFound) {
				t.Errorf("%s: got error %v, want ErrUnavailable", what, err)
			}
		}
	})
}

// If the row does not show a change that was just committed, its session may be at a replaced
// server, so the row is read again with a barrier.
func TestOrderAfterAChange(t *testing.T) {
	store, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), 1)
	barriers := func() (n int64) {
		check.Must(t, store.DB.Raw("SELECT COALESCE(SUM(barrier), 0) FROM nodes").Scan(&n).Error)
		return n
	}
	for _, c := range []struct {
		to   orders.Status
		want int64 // barriers so far
	}{{orders.PendingPayment, 0}, {orders.Cancelled, 1}} {
		check.Must(t, check.Err(store.orderAfter(t.Context(), true, c.to, "buyer-0", ids[0])))
		if n := barriers(); n != c.want {
			t.Errorf("read a pending order after a change to %s: got %d barriers, want %d", c.to, n, c.want)
		}
	}
}

// A pausing pool calls before ahead of its second query.
type pausing struct {
	*sql.DB
	queries int
	before  func()
}

func (p *pausing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if p.queries++; p.queries == 2 {
		p.before()
	}
	return p.DB.QueryContext(ctx, query, args...)
}

// Lookup finds an order that is committed between its two statements. Otherwise a change of the
// sale in that moment, which Lookup also reads, could hide the order.
func TestLookupReadsTheSaleFirst(t *testing.T) {
	store, _ := stocked(t, servertest.OpenSQL(t, servers.KindReal), 0)
	pool := &pausing{DB: store.sql, before: func() {
		id := kit.InsertPendingOrders(t, store.DB, 1)[0]
		kit.Exec(t, store.DB, "UPDATE orders SET idempotency_key = 'k' WHERE id = ?", id)
	}}
	if o, sale, err := kit.Onto(t, store.WithPool, pool).Lookup(t.Context(), "S", "buyer-0", "k"); err != nil || o == nil || sale == nil {
		t.Errorf("look up an order that is committed after the first statement: got order %v, sale %v, error %v, want both", o, sale, err)
	}
}
