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

	"flashsale/orders/controller"
	"flashsale/orders/store"
)

// Run serves until ctx is canceled. Then it stops in an order that loses no request:
// it serves for DrainDelay although it is not ready, rejects new requests, finishes
// accepted ones while the keepers still run, stops the keepers so that other nodes take
// over, and closes the stores.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	g, gctx := errgroup.WithContext(ctx)
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	serving, stopServing := context.WithCancel(loops)
	defer stopServing()

	server := a.server(a.web)
	g.Go(func() error { return serve(server, a.listener) })
	side := a.server(a.sideRoutes())
	side.WriteTimeout = 0 // the caller of pprof chooses the length of a profile
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
	g.Go(func() error { return a.crowd.Run(serving) })
	if a.feed != nil {
		g.Go(func() error {
			select {
			case <-a.ready:
				g.Go(func() error { a.webhooks.Run(serving); return nil })
				a.feed.Run(serving) // ends all waits for changes, which would delay Shutdown
			case <-serving.Done():
			}
			return nil
		})
	}
	g.Go(func() error { return a.live.Run(serving) }) // ends all streams, which would delay Shutdown
	g.Go(func() error {
		<-gctx.Done()
		a.web.SetReady(false)
		a.delayDrain(ctx)
		a.cfg.Log.Info("node is stopping: it rejects new requests and finishes accepted ones")
		stopServing()
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Drain)
		defer cancel()
		defer func() { _ = side.Close() }() // does not wait for a scrape or a profile
		defer stopLoops()
		if err := server.Shutdown(drain); err != nil {
			return fmt.Errorf("stop the server: not all accepted requests were finished: %w", err)
		}
		return nil
	})
	if err := g.Wait(); err != nil && !errors.Is(err, errStopped) {
		return err
	}
	a.cfg.Log.Info("node stopped")
	return nil
}

// delayDrain waits for DrainDelay if the node is stopped on purpose while it sells. A balancer
// sends requests until it has noticed that /readyz fails.
func (a *App) delayDrain(ctx context.Context) {
	select {
	case <-a.ready:
	default:
		return // the node has not started, so no balancer sends requests
	}
	if ctx.Err() == nil || a.cfg.DrainDelay <= 0 {
		return
	}
	a.cfg.Log.Info("node is stopping: /readyz is 503, and all requests are served for --drain-delay", "delay", a.cfg.DrainDelay)
	<-a.cfg.After(a.cfg.DrainDelay)
}

func serve(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// prepare waits for the stores, migrates the schema and marks the node as ready. If
// Redis stays unreachable for DirectAfter, the node starts without it, because direct
// mode needs only MySQL.
func (a *App) prepare(ctx context.Context) error {
	giveUp := time.Now().Add(a.cfg.DirectAfter)
	err := a.await(ctx, "redis", Redact(a.cfg.Redis), func(ctx context.Context) error {
		err := a.rdb.Ping(ctx).Err()
		if err == nil {
			return a.checkEviction(ctx)
		}
		if time.Now().After(giveUp) {
			a.cfg.Log.Warn("Redis is unreachable: the node starts without it and sells in direct mode until Redis is back", "at", Redact(a.cfg.Redis), "error", err)
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	_, _ = a.rights.Get(ctx) // logs what Redis refuses
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
		a.cfg.Log.Info("database schema migrated", "migrations", applied)
	}
	if err := a.awaitName(ctx); err != nil {
		return err
	}
	if err := a.await(ctx, "mysql to accept a heartbeat", Redact(a.cfg.SQL), a.service.Controller().Beat); err != nil {
		return err
	}
	if err := a.awaitRedis(ctx); err != nil {
		return err
	}
	a.web.SetReady(true)
	close(a.ready)
	a.cfg.Log.Info("serving", "url", a.URL())
	return nil
}

// awaitName waits until no heartbeat of this node's name is younger than a lease. After a
// crash, the previous process has left such a heartbeat. If the heartbeat is renewed,
// another node has the same name and awaitName returns an error: each of the two nodes
// would take the heartbeats and locks of the other one for its own.
func (a *App) awaitName(ctx context.Context) error {
	var began, seen time.Time
	for {
		nodes, err := a.store.LiveNodes(ctx, a.cfg.Lease)
		at := slices.IndexFunc(nodes, func(n store.Node) bool { return n.ID == a.cfg.Node })
		switch {
		case err != nil && ctx.Err() == nil:
			a.cfg.Log.Warn("node is not ready: waiting for mysql", "at", Redact(a.cfg.SQL), "error", err)
		case err == nil && at < 0:
			return nil
		case err == nil && began.IsZero():
			began, seen = time.Now(), nodes[at].SeenAt
			a.cfg.Log.Info("node is not ready: a heartbeat with this node's name is younger than a lease; waiting until it expires", "node", a.cfg.Node)
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

// awaitRedis waits until Redis belongs to the database of this node. It returns an error if nodes
// of another database use Redis. If Redis is unreachable, it returns nil.
func (a *App) awaitRedis(ctx context.Context) error {
	var shared error
	err := a.await(ctx, "redis to belong to this database", Redact(a.cfg.Redis), func(ctx context.Context) error {
		err := a.service.Controller().OwnRedis(ctx)
		if errors.Is(err, controller.ErrShared) {
			shared = fmt.Errorf("start node %q: %w (--redis, --namespace)", a.cfg.Node, err)
			return nil
		}
		if errors.Is(err, controller.ErrUnreachable) && ctx.Err() == nil {
			return nil
		}
		return err
	})
	return errors.Join(err, shared)
}

// await calls ask until the store responds. After a restart of the whole system, the
// node may start before its stores.
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
		a.cfg.Log.Warn("node is not ready: waiting for "+name, "at", where, "error", err)
		select {
		case <-ctx.Done():
			return errStopped
		case <-time.After(time.Second):
		}
	}
}

// sideRoutes returns the handler of --metrics-addr. pprof must not be public.
func (a *App) sideRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", a.web.MetricsHandler())
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
