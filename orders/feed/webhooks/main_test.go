package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/feed"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const (
	hookName = "shop"
	secret   = "the secret of the service in these tests"
	former   = "the secret of the service before that one"
)

// openStore returns a migrated store with a sale S and n orders of it.
func openStore(t testing.TB, dsn string, n int) (*store.Store, []string) {
	t.Helper()
	st, err := store.Open(dsn, store.Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	check.Must(t, check.Err(st.Migrate(t.Context())))
	kit.PutSale(t, st, kit.Sale("S", 1000, 1000))
	return st, kit.InsertPendingOrders(t, st.DB, n)
}

type (
	// A request is what a receiver has received.
	request struct {
		at       time.Time
		header   http.Header
		body     []byte
		items    []item
		accepted bool // answered with a 2xx
	}
	// An item is a change as a consumer reads it.
	item struct {
		No    int64
		Order struct{ ID, Status string }
		Sale  struct {
			SKU   string
			Total int64
		}
	}
	// A receiver is an endpoint that verifies each request with the library of Standard Webhooks.
	receiver struct {
		t testing.TB
		// answer returns the status of the answer to the i-th request, which counts from 0. If it has
		// answered itself, it returns 0.
		answer   func(w http.ResponseWriter, i int) (status int)
		mu       sync.Mutex
		requests []request
	}
)

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the node was stopped
	}
	var content struct {
		Type      string
		Timestamp time.Time
		Data      struct {
			Changes []item
			Next    string
		}
	}
	err = json.Unmarshal(body, &content)
	items := content.Data.Changes
	if err != nil || content.Type != "changes" || content.Data.Next == "" || len(items) == 0 || len(items) > maxChanges ||
		content.Timestamp.UnixMilli() != items[len(items)-1].No || len(body) >= maxBody {
		r.t.Errorf("body of %d bytes: got error %v, %.300s", len(body), err, body)
	}
	for _, secret := range []string{secret, former} {
		verify, err := standardwebhooks.NewWebhook(Secret([]byte(secret), hookName))
		check.OK(r.t, err)
		check.OK(r.t, verify.Verify(body, req.Header))
	}
	r.mu.Lock()
	i := len(r.requests)
	r.requests = append(r.requests, request{at: time.Now(), header: req.Header, body: body, items: items})
	r.mu.Unlock()
	status := http.StatusOK
	if r.answer != nil {
		status = r.answer(w, i)
	}
	r.mu.Lock()
	r.requests[i].accepted = status == http.StatusOK
	r.mu.Unlock()
	if status != 0 {
		w.WriteHeader(status)
	}
}

// received returns the requests so far.
func (r *receiver) received() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// ledger returns what a consumer knows that has applied the accepted requests in their order. It
// reports a change with an older number than the one before as an error.
func (r *receiver) ledger() map[string]string {
	known, numbers := map[string]string{}, map[string]int64{}
	for _, q := range r.received() {
		for i := 0; i < len(q.items) && q.accepted; i++ {
			c, id := q.items[i], q.items[i].Order.ID+q.items[i].Sale.SKU
			if c.No < numbers[id] {
				r.t.Errorf("change %d of %s after its change %d: it is reported backwards", c.No, id, numbers[id])
			}
			known[id], numbers[id] = fmt.Sprint(c.Order.Status, c.Sale.Total), c.No
		}
	}
	return known
}

// knows reports whether the receiver knows the state of all rows.
func (r *receiver) knows(st *store.Store) bool {
	var sale orders.Sale
	check.Must(r.t, st.DB.Where("sku = 'S'").Take(&sale).Error)
	want := map[string]string{"S": fmt.Sprint(sale.Total)}
	for id, o := range kit.RowsOf(r.t, st.DB) {
		want[id] = fmt.Sprint(o.Status, 0)
	}
	return maps.Equal(r.ledger(), want)
}

// pipes is a network with one server and without sockets, so it works in a bubble of
// testing/synctest. Unlike a socket it buffers nothing, so the server knows how much the client has
// read.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p <- there
	return here, nil
}

// serve runs h on a new network, and returns the network.
func serve(t testing.TB, h http.Handler) pipes {
	p := make(pipes, 100)
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(p) }()
	t.Cleanup(func() { close(p); _ = server.Close() })
	return p
}

// node runs a feed and a deliverer until stop is called. If network is nil, it is that of the
// machine.
func node(t testing.TB, st *store.Store, network pipes, url string) (d *Deliverer, stop func()) {
	f := feed.New(feed.Config{Store: st, Log: check.Log(t)})
	return run(t, st, network, url, f.Read, f.Run)
}

// A reader reads the feed.
type reader = func(ctx context.Context, after string, limit int, wait time.Duration) ([]store.Change, string, error)

// without returns a reader that needs no feed, whose loop would make hours in a bubble slow.
func without(st *store.Store) reader {
	return func(ctx context.Context, after string, limit int, _ time.Duration) ([]store.Change, string, error) {
		return st.Changes(ctx, after, limit)
	}
}

// run is node with a reader, and with other loops than that of a feed.
func run(t testing.TB, st *store.Store, network pipes, url string, read reader, loops ...func(context.Context)) (d *Deliverer, stop func()) {
	d = New(Config{
		URLs: map[string]string{hookName: url}, Secrets: [][]byte{[]byte(secret), []byte(former)},
		Store: st, Read: read, Clock: time.Now, Log: check.Log(t),
	})
	if network != nil {
		d.hooks[0].client.Transport.(*http.Transport).DialContext = network.dial
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, loop := range append(loops, d.Run) {
		running.Go(func() { loop(ctx) })
	}
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return d, stop
}

// inTime runs f in a bubble of testing/synctest. The store is on SQLite, which uses the clock of the
// bubble.
func inTime(t *testing.T, orders int, f func(t *testing.T, st *store.Store, ids []string)) {
	servertest.Bubble(t, func(t *testing.T) {
		st, ids := openStore(t, servertest.OpenSQL(t, servers.KindEmbedded), orders)
		f(t, st, ids)
	})
}

// until waits in a bubble until ok returns true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for seconds := 0; !ok(); seconds++ {
		if time.Sleep(time.Second); seconds == 2*60*60 {
			t.Fatalf("waited for two hours until: %s", what)
		}
	}
}
