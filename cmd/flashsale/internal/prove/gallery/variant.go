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

// All returns the variants of the gallery, and the real service last.
func All() []variants.Variant {
	return append(variants.All(), variants.Variant{
		Name: ours, Does: "this project: a gate in Redis, a keeper that stores batches", Source: "README.md",
	})
}

// Names returns the names of all variants, in the order of the table.
func Names() []string {
	var names []string
	for _, v := range All() {
		names = append(names, v.Name)
	}
	return names
}

// A Server is one process of a variant, behind the routes of the API contract.
type Server struct {
	front
	stores   variants.Stores
	listener net.Listener
}

// Open connects a variant to its stores, creates missing tables, and listens on
// addr. The server accepts tokens signed with secret.
func Open(ctx context.Context, name, addr, redisURL, dsn, secret string) (_ *Server, err error) {
	v, known := variants.Find(name)
	if !known {
		return nil, fmt.Errorf("open variant: unknown name %q", name)
	}
	if v.MySQL && variants.IsSQLite(dsn) {
		return nil, fmt.Errorf("open variant %s: it needs row locks, which the embedded SQLite does not have: use --real", name)
	}
	verifier, err := auth.New(auth.Config{Secret: []byte(secret)})
	if err != nil {
		return nil, err
	}
	logging.Disable() // a cut connection would make go-redis log at length
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

// URL returns the URL of the server on this machine.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Token returns a signed token that the server accepts for one hour.
func (s *Server) Token(subject string, admin bool) (string, error) {
	return s.verifier.Sign(subject, admin, time.Hour)
}

// Ready returns a closed channel. Requests that arrive before Run wait in the listener.
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
	_ = s.stores.Close() // closing fails if a fault has cut a connection
	return err
}
