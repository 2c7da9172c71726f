package gallery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/ratelimit"
)

// ours is the name of the real service.
const ours = "flashsale"

// all are the variants of the gallery, and the real service.
func all() []variants.Variant {
	return append(variants.All(), variants.Variant{
		Name: ours, Does: "this project: a gate in Redis, a keeper that stores batches", Source: "README.md",
	})
}

// Names of all variants, in the order of the table.
func Names() []string {
	var names []string
	for _, v := range all() {
		names = append(names, v.Name)
	}
	return names
}

// A life is one process of a variant: what is left of it when it is killed is
// in the stores.
type life struct {
	addr string
	end  context.CancelFunc
	done chan error
}

// close ends it in good order, or what is left of it after its death.
func (l *life) close() error {
	l.end()
	return <-l.done
}

// secret signs the buyers' tokens of this process.
var secret = rand.Text() + rand.Text()

func token(subject string, admin bool) (string, error) {
	verifier, err := auth.New(auth.Config{Secret: []byte(secret)})
	if err != nil {
		return "", err
	}
	return verifier.Sign(subject, admin, time.Hour)
}

// A server is one process that sells, ours or another.
type server interface {
	URL() string
	Ready() <-chan struct{}
	Run(ctx context.Context) error
}

// live starts a variant on stores.
func live(ctx context.Context, v variants.Variant, redisURL, dsn string) (_ *life, err error) {
	var opened server
	if v.Name == ours {
		opened, err = openOurs(redisURL, dsn)
	} else {
		opened, err = Open(ctx, v.Name, "127.0.0.1:0", redisURL, dsn, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", v.Name, err)
	}
	// What runs ends when it is told to, and not by whoever started it.
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	l := &life{addr: strings.TrimPrefix(opened.URL(), "http://"), end: end, done: make(chan error, 1)}
	go func() { l.done <- opened.Run(running) }()
	starting, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	select {
	case <-opened.Ready():
		return l, nil
	case <-starting.Done():
		return nil, fmt.Errorf("start %s: %w", v.Name, errors.Join(starting.Err(), l.close()))
	case err := <-l.done:
		end()
		return nil, fmt.Errorf("start %s: %w", v.Name, err)
	}
}

// A Server is one process of a variant, behind the routes of the contract.
type Server struct {
	front
	stores   variants.Stores
	listener net.Listener
}

// Open puts a variant on stores, makes the tables it needs, and listens on addr.
// Tokens are signed with secret.
func Open(ctx context.Context, name, addr, redisURL, dsn, secret string) (_ *Server, err error) {
	v, known := variants.Find(name)
	if !known {
		return nil, fmt.Errorf("no variant is called %q", name)
	}
	if v.MySQL && variants.IsSQLite(dsn) {
		return nil, fmt.Errorf("%s needs row locks, which the embedded SQLite has not: try it with --real", name)
	}
	verifier, err := auth.New(auth.Config{Secret: []byte(secret)})
	if err != nil {
		return nil, err
	}
	logging.Disable() // of connections that are cut, every pool has much to say
	stores, err := variants.Connect(redisURL, dsn)
	if err != nil {
		return nil, err
	}
	s := &Server{front: front{v.New(stores), verifier}, stores: stores}
	if err = variants.Migrate(ctx, stores.DB); err == nil {
		s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, errors.Join(err, stores.Close())
	}
	return s, nil
}

// URL is where the server is reached from this machine.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Token signs a token that the server accepts.
func (s *Server) Token(subject string, admin bool) (string, error) {
	return s.verifier.Sign(subject, admin, time.Hour)
}

// Ready is closed: whoever comes before Run waits for it.
func (s *Server) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

// Run sells until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.shop.Run(ctx) })
	g.Go(func() error { return lab.Serve(ctx, s.listener, s.handler()) })
	err := g.Wait()
	_ = s.stores.Close() // its connections may be cut
	return err
}

// openOurs is one node of the real service, with everything on that a real one
// has on; its limits never refuse.
func openOurs(redisURL, dsn string) (server, error) {
	limit, err := ratelimit.ParseLimit("1000000/s:1000000")
	if err != nil {
		return nil, err
	}
	return app.New(app.Config{
		Addr: "127.0.0.1:0", Redis: redisURL, SQL: dsn, Secret: secret,
		Limits: app.Limits{LimitBuyer: limit, LimitIP: limit}, TrustedProxies: []string{"127.0.0.1"},
		Lease: time.Second, Drain: time.Second, MaxQuantity: 10,
		Log: slog.New(slog.DiscardHandler), // it is killed, and says so at length
	})
}
