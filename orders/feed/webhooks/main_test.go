package webhooks

import (
	"bytes"
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

// A request is what a receiver has received.
type request struct {
	at     time.Time
	header http.Header
	body   []byte
	items  []item
}

// An item is a change as a consumer reads it.
type item struct {
	No    int64
	Kind  string
	Order struct{ ID, Status string }
	Sale  struct {
		SKU   string
		Total int64
	}
}

// A receiver is an endpoint that verifies each request with the library of Standard Webhooks. answer
// answers the i-th request, which counts from 0. A request that is answered with a 2xx is accepted.
type receiver struct {
	t      testing.TB
	verify *standardwebhooks.Webhook
	answer func(w http.ResponseWriter, i int)

	mu       sync.Mutex
	requests []request
	accepted []int // index of the accepted requests
	news     chan struct{}
}

func newReceiver(t testing.TB, answer func(w http.ResponseWriter, i int)) *receiver {
	verify, err := standardwebhooks.NewWebhook(Secret([]byte(secret), hookName))
	check.Must(t, err)
	return &receiver{t: t, verify: verify, answer: answer, news: make(chan struct{}, 1)}
}

// status is a ResponseWriter that keeps the status.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) { s.code = code; s.ResponseWriter.WriteHeader(code) }

// Unwrap is for http.ResponseController.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

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
		content.Timestamp.UnixMilli() != items[len(items)-1].No || len(body) >= 20_000 {
		r.t.Errorf("body of %d bytes: got error %v, %.300s", len(body), err, body)
	}
	if err := r.verify.Verify(body, req.Header); err != nil {
		r.t.Errorf("signature of %v: got error %v, want none", req.Header, err)
	}
	r.mu.Lock()
	i := len(r.requests)
	r.requests = append(r.requests, request{time.Now(), req.Header, body, items})
	r.mu.Unlock()
	s := &status{w, http.StatusOK}
	if r.answer != nil {
		r.answer(s, i)
	}
	if r.mu.Lock(); s.code/100 == 2 {
		r.accepted = append(r.accepted, i)
	}
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// received returns the requests so far.
func (r *receiver) received() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// ledger returns what a consumer knows that has applied the accepted requests in their order. A
// change with an older number than the one before is an error.
func (r *receiver) ledger() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, numbers := map[string]string{}, map[string]int64{}
	for _, i := range r.accepted {
		for _, c := range r.requests[i].items {
			id, state := c.Order.ID, c.Order.Status
			if c.Kind == "sale" {
				id, state = c.Sale.SKU, fmt.Sprint(c.Sale.Total)
			}
			if c.No < numbers[id] {
				r.t.Errorf("change %d of %s after its change %d: it is reported backwards", c.No, id, numbers[id])
			}
			known[id], numbers[id] = state, c.No
		}
	}
	return known
}

// rows returns what a consumer should know.
func rows(t testing.TB, st *store.Store) map[string]string {
	t.Helper()
	var sale orders.Sale
	check.Must(t, st.DB.Where("sku = 'S'").Take(&sale).Error)
	known := map[string]string{"S": fmt.Sprint(sale.Total)}
	for id, o := range kit.RowsOf(t, st.DB) {
		known[id] = string(o.Status)
	}
	return known
}

// knows reports whether the receiver knows all rows.
func (r *receiver) knows(st *store.Store) bool { return maps.Equal(r.ledger(), rows(r.t, st)) }

// pipes is a network of one server, without sockets, so it works in a bubble of testing/synctest.
// Unlike a socket it buffers nothing, so a server knows how much the client has read.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serve runs h on a new network, and returns the network.
func serve(t testing.TB, h http.Handler) pipes {
	p := make(pipes, 100)
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(p) }()
	t.Cleanup(func() { close(p); _ = server.Close() })
	return p
}

// node runs a feed and a deliverer to the servers of the network until stop is called. If network is
// nil, it is that of the machine.
func node(t testing.TB, st *store.Store, network pipes, url string) (d *Deliverer, stop func()) {
	t.Helper()
	f := feed.New(feed.Config{Store: st, Log: check.Log(t)})
	stopFeed := start(t, f.Run)
	d, stopDeliverer := deliver(t, st, f.Read, network, url)
	return d, func() { stopDeliverer(); stopFeed() }
}

// deliver is node without a feed.
func deliver(t testing.TB, st *store.Store, read func(context.Context, string, int, time.Duration) ([]store.Change, string, error), network pipes, url string) (d *Deliverer, stop func()) {
	d = New(Config{
		Endpoints: []Endpoint{{hookName, url}}, Secrets: [][]byte{[]byte(secret), []byte(former)},
		Store: st, Read: read, Clock: time.Now, Log: check.Log(t),
	})
	if network != nil {
		d.hooks[0].client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			network <- there
			return here, nil
		}
	}
	return d, start(t, d.Run)
}

// start runs a loop until stop is called.
func start(t testing.TB, loop func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { loop(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
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

// zeros is a body that has no end. It counts its bytes.
func zeros(w io.Writer) (n int64) {
	n, _ = io.Copy(w, io.LimitReader(endless{}, 10<<20))
	return n
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte{0}, len(b))), nil }
