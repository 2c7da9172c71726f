package gallery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
)

// ours is the name of the real service.
const ours = "flashsale"

// All are the variants of the gallery, and the real service.
func All() []variants.Variant {
	return append(variants.All(), variants.Variant{
		Name: ours, Does: "this project: a gate in Redis, a keeper that stores batches", Source: "README.md",
	})
}

// Names of all variants, in the order of the table.
func Names() []string {
	var names []string
	for _, v := range All() {
		names = append(names, v.Name)
	}
	return names
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
