package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/orders/store"
)

// Run serves until ctx ends and then stops in an order that loses nothing:
// no new requests; those that were accepted are finished, with the keepers
// still at work; then the keepers hand over; then the stores are closed.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	g, gctx := errgroup.WithContext(ctx)
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()

	server := a.server(a.web)
	g.Go(func() error { return serve(server, a.listener) })
	side := a.server(a.sideRoutes())
	side.WriteTimeout = 0 // a profile takes as long as it was asked to
	if a.metrics != nil {
		g.Go(func() error { return serve(side, a.metrics) })
	}
	g.Go(func() error {
		if err := a.prepare(gctx); err != nil {
			return err
		}
		if a.cfg.Demo {
			g.Go(func() error { a.demoSale(gctx); return nil })
		}
		return a.service.Run(loops)
	})
	g.Go(func() error { return a.crowd.Run(gctx) })
	g.Go(func() error { return a.live.Run(gctx) }) // who watches is not waited for
	g.Go(func() error {
		<-gctx.Done()
		a.cfg.Log.Info("stopping: no new requests, finishing those that were accepted")
		a.web.SetReady(false)
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Drain)
		defer cancel()
		defer func() { _ = side.Close() }() // nobody waits for a scrape or a profile
		defer stopLoops()
		if err := server.Shutdown(drain); err != nil {
			return fmt.Errorf("finish the requests that were accepted: %w", err)
		}
		return nil
	})
	if err := g.Wait(); err != nil && !errors.Is(err, errStopped) {
		return err
	}
	a.cfg.Log.Info("stopped")
	return nil
}

func serve(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// prepare waits for the stores, brings the schema up to date and opens. If
// Redis stays unreachable, the node starts anyway: direct mode works without it.
func (a *App) prepare(ctx context.Context) error {
	giveUp := time.Now().Add(a.cfg.DirectAfter)
	err := a.await(ctx, "redis", Redact(a.cfg.Redis), func(ctx context.Context) error {
		err := a.rdb.Ping(ctx).Err()
		if err == nil {
			return a.checkEviction(ctx)
		}
		if time.Now().After(giveUp) {
			a.cfg.Log.Warn("Redis is unreachable: starting without it", "at", Redact(a.cfg.Redis), "error", err)
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := a.await(ctx, "mysql", Redact(a.cfg.SQL), a.store.Ping); err != nil {
		return err
	}
	applied, err := a.store.Migrate(ctx)
	if ctx.Err() != nil {
		return errStopped
	}
	if err != nil {
		return err
	}
	if applied > 0 {
		a.cfg.Log.Info("schema migrated", "migrations", applied)
	}
	if err := a.awaitName(ctx); err != nil {
		return err
	}
	a.web.SetReady(true)
	close(a.ready)
	a.cfg.Log.Info("serving", "url", a.URL())
	return nil
}

// awaitName waits while there is a fresh heartbeat under this node's name. After a crash
// it is this node's own, and grows old within a lease. If it is renewed, another node has
// the name: each of the two would take the other's heartbeats and locks for its own.
func (a *App) awaitName(ctx context.Context) error {
	var began, seen time.Time
	for {
		nodes, err := a.store.Nodes(ctx, a.cfg.Lease)
		at := slices.IndexFunc(nodes, func(n store.Node) bool { return n.ID == a.cfg.Node })
		switch {
		case err != nil && ctx.Err() == nil:
			a.cfg.Log.Warn("waiting for mysql", "at", Redact(a.cfg.SQL), "error", err)
		case err == nil && at < 0:
			return nil
		case err == nil && began.IsZero():
			began, seen = time.Now(), nodes[at].SeenAt
			a.cfg.Log.Info("waiting for the last heartbeat under this node's name to grow old", "node", a.cfg.Node)
		case err == nil && !nodes[at].SeenAt.Equal(seen):
			return fmt.Errorf("start node %q: a node of that name is running (--node chooses another name)", a.cfg.Node)
		case err == nil && time.Since(began) > a.cfg.Lease:
			return nil
		}
		select {
		case <-ctx.Done():
			return errStopped
		case <-time.After(a.cfg.Lease / 20):
		}
	}
}

// await asks a store until it answers. A restart of everything at once does
// not start things in order.
func (a *App) await(ctx context.Context, name, where string, ask func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ask(attempt)
		cancel()
		if err == nil || errors.Is(err, errEviction) {
			return err
		}
		if ctx.Err() != nil {
			return errStopped
		}
		a.cfg.Log.Warn("waiting for "+name, "at", where, "error", err)
		select {
		case <-ctx.Done():
			return errStopped
		case <-time.After(time.Second):
		}
	}
}

// sideRoutes are for the operator's own network only.
func (a *App) sideRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", a.web.MetricsHandler())
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
