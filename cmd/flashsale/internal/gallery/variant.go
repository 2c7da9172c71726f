package gallery

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/cmd/flashsale/internal/app"
	"flashsale/cmd/flashsale/internal/auth"
	"flashsale/cmd/flashsale/internal/gallery/shops"
	"flashsale/ratelimit"
)

// ours is the name of the real service.
const ours = "flashsale"

// variants are the shops of the gallery, and the real service.
func variants() []shops.Variant {
	return append(shops.All(), shops.Variant{
		Name: ours, Does: "this project: a gate in Redis, a keeper that stores batches", Source: "README.md",
	})
}

// Names of all variants, in the order of the table.
func Names() []string {
	var names []string
	for _, v := range variants() {
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

func newVerifier() (*auth.Verifier, error) { return auth.New([]byte(secret), nil) }

// live starts a variant on stores.
func live(ctx context.Context, v shops.Variant, redisURL, dsn string) (*life, error) {
	start := func(ctx context.Context) (string, func(context.Context) error, error) {
		return openShop(ctx, v, redisURL, dsn)
	}
	if v.Name == ours {
		start = func(context.Context) (string, func(context.Context) error, error) { return openOurs(redisURL, dsn) }
	}
	// What runs ends when it is told to, and not by whoever started it.
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	addr, run, err := start(ctx)
	if err != nil {
		end()
		return nil, fmt.Errorf("start %s: %w", v.Name, err)
	}
	l := &life{addr: addr, end: end, done: make(chan error, 1)}
	go func() { l.done <- run(running) }()
	if err := l.await(ctx); err != nil {
		_ = l.close()
		return nil, fmt.Errorf("start %s: %w", v.Name, err)
	}
	return l, nil
}

// await returns once it answers.
func (l *life) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return poll(ctx, "it answers", func(ctx context.Context) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.addr+"/readyz", nil)
		if err != nil {
			return false
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode != http.StatusServiceUnavailable // the gallery's front has no such route
	})
}

// openShop puts a shop behind a front.
func openShop(ctx context.Context, v shops.Variant, redisURL, dsn string) (addr string, run func(context.Context) error, err error) {
	verifier, err := newVerifier()
	if err != nil {
		return "", nil, err
	}
	redis.SetLogger(silent{}) // of connections that are cut, every pool has much to say
	stores, err := shops.Connect(redisURL, dsn)
	if err != nil {
		return "", nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		_ = stores.Close()
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	shop := v.New(stores)
	server := &http.Server{Handler: front{shop, verifier}.handler(), ReadHeaderTimeout: 5 * time.Second}
	return listener.Addr().String(), func(ctx context.Context) error {
		g, gctx := errgroup.WithContext(ctx)
		g.Go(func() error { return shop.Run(gctx) })
		g.Go(func() error { <-gctx.Done(); return server.Close() })
		g.Go(func() error {
			if err := server.Serve(listener); gctx.Err() == nil {
				return err
			}
			return nil
		})
		err := g.Wait()
		_ = stores.Close() // its connections may be cut
		return err
	}, nil
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// openOurs is one node of the real service, with everything on that a real one
// has on; its limits never refuse.
func openOurs(redisURL, dsn string) (addr string, run func(context.Context) error, err error) {
	limit, err := ratelimit.ParseLimit("1000000/s:1000000")
	if err != nil {
		return "", nil, err
	}
	node, err := app.New(app.Config{
		Addr: "127.0.0.1:0", Redis: redisURL, SQL: dsn, Secret: secret,
		LimitBuyer: limit, LimitIP: limit, TrustedProxies: []string{"127.0.0.1"},
		Lease: time.Second, Drain: time.Second, MaxQuantity: 10,
		Log: slog.New(slog.DiscardHandler), // it is killed, and says so at length
	})
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(node.URL())
	if err != nil {
		return "", nil, err
	}
	return u.Host, node.Run, nil
}
