// Package webhooks delivers the feed of changes to HTTP endpoints, signed as Standard Webhooks 1.0
// prescribes. Any number of nodes may deliver to an endpoint: they take turns, under a lease in the
// database. A page of changes is delivered when the endpoint has answered with a 2xx. Until then it
// is sent again, and later pages wait. Nothing is given up.
//
// An endpoint may receive a page twice and, if a node was paused while it sent the page, late. So a
// consumer ignores a change whose number is not higher than the last number of that order or sale.
package webhooks

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"flashsale/orders/store"
)

// Config of a Deliverer.
type Config struct {
	URLs    map[string]string // URL of each webhook, by its name
	Secrets [][]byte          // secrets of the service: the current one and, if there is one, the former one
	Store   *store.Store
	// Read returns up to limit changes after a cursor. If there are none, it waits for up to wait, as
	// Read of a feed.Feed does.
	Read  func(ctx context.Context, after string, limit int, wait time.Duration) ([]store.Change, string, error)
	Clock func() time.Time // the node's clock
	Log   *slog.Logger
}

const (
	lease = 30 * time.Second // no other node makes an attempt until it ends
	spare = 5 * time.Second  // an attempt ends that long before its lease
	idle  = 5 * time.Second  // longest time between two turns
	busy  = time.Second      // time until the next turn if another node makes an attempt, or a read fails
)

// A Deliverer delivers the feed to all webhooks.
type Deliverer struct{ hooks []*hook }

// New returns a Deliverer, which delivers while Run runs.
func New(cfg Config) *Deliverer {
	d := &Deliverer{}
	for _, name := range slices.Sorted(maps.Keys(cfg.URLs)) {
		h := &hook{Config: &cfg, name: name, client: newClient(), state: State{Name: name}}
		for _, secret := range cfg.Secrets {
			h.keys = append(h.keys, key(secret, name))
		}
		d.hooks = append(d.hooks, h)
	}
	return d
}

// Run delivers until ctx ends. It aborts the attempts in progress, which another node repeats.
func (d *Deliverer) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, h := range d.hooks {
		all.Go(func() { h.run(ctx) })
	}
	all.Wait()
}

// A State is the state of a webhook at this node's last turn, a few seconds ago.
type State struct {
	Name     string  `json:"name"`
	Lag      float64 `json:"lag_s"`    // age of the oldest change that is not delivered; 0 if all are
	Failures int64   `json:"failures"` // failed attempts of all nodes since the last delivery
	Stopped  bool    `json:"stopped"`  // the endpoint has answered 410 Gone
	Error    string  `json:"error"`    // of the last attempt; "" after a delivery
}

// States returns the states of all webhooks, sorted by name.
func (d *Deliverer) States() []State {
	states := make([]State, len(d.hooks))
	for i, h := range d.hooks {
		h.mu.Lock()
		if states[i] = h.state; !h.oldest.IsZero() {
			states[i].Lag = max(time.Since(h.oldest).Seconds(), 0.001)
		}
		h.mu.Unlock()
	}
	return states
}

// A hook delivers to one endpoint.
type hook struct {
	*Config
	name   string
	keys   [][]byte
	client *http.Client
	down   bool // the last turn could not read the next changes

	mu     sync.Mutex // guards the fields below
	state  State
	oldest time.Time // time of the oldest change that is not delivered, on the node's clock; zero for none
}

func (h *hook) run(ctx context.Context) {
	defer h.client.CloseIdleConnections()
	for ctx.Err() == nil {
		pause, err := h.turn(ctx)
		if err != nil && !h.down && ctx.Err() == nil { // once per outage
			h.Log.WarnContext(ctx, "webhook: the next changes cannot be read, so nothing is delivered; retried each second", "webhook", h.name, "error", err)
		}
		h.down = err != nil
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// turn makes an attempt if there is something to deliver and an attempt is due. It returns the time
// until the next turn.
func (h *hook) turn(ctx context.Context) (pause time.Duration, err error) {
	began := time.Now()
	row, now, err := h.Store.Webhook(ctx, h.name)
	if err != nil {
		return busy, err
	}
	due, limit, wait := isDue(row, now), 1, time.Duration(0) // if no attempt is due, one change shows the lag
	if due {
		limit, wait = maxChanges, idle
	}
	p, err := h.read(ctx, row.Position, limit, wait)
	h.note(row, p, err, began, now)
	if err != nil {
		return busy, err
	}
	switch {
	case len(p.changes) == 0, row.Stopped:
		return idle - time.Since(began), nil // Read may have returned early
	case !due:
		return max(busy, min(idle, row.NextAt.Sub(now))), nil
	}
	leased := row
	leased.LeasedUntil = now.Add(lease)
	if taken, err := h.Store.SwapWebhook(ctx, row, leased); err != nil || !taken {
		return busy, err
	}
	return 0, h.attempt(ctx, leased, p, began)
}

// note keeps the state for State. now is the database's time when the node's time was began. If the
// changes cannot be read, the lag counts from the first failure.
func (h *hook) note(row store.Webhook, p page, err error, began, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = State{Name: h.name, Failures: row.Failures, Stopped: row.Stopped, Error: row.LastError}
	switch {
	case err != nil:
		h.state.Error = "the changes cannot be read: " + err.Error()
		if h.oldest.IsZero() {
			h.oldest = began
		}
	case len(p.changes) > 0:
		h.oldest = at(p.changes[0]).Add(began.Sub(now))
	default:
		h.oldest = time.Time{}
	}
}

// isDue reports whether a node may make an attempt at that time. A time that is too far in the future
// was written before the database's clock was set back. It is ignored.
func isDue(row store.Webhook, now time.Time) bool {
	later := func(t time.Time, most time.Duration) bool { return t.After(now) && !t.After(now.Add(most)) }
	return !later(row.NextAt, maxPause) && !later(row.LeasedUntil, 2*lease)
}

// attempt sends a page under a lease that was taken after began, and moves the position if the
// endpoint has accepted the page.
func (h *hook) attempt(ctx context.Context, leased store.Webhook, p page, began time.Time) error {
	sending, cancel := context.WithDeadline(ctx, began.Add(lease-spare))
	defer cancel()
	res, err := h.send(sending, messageID(h.name, leased.Position, p.next), p.body) //nolint:bodyclose // send closes the body
	next := leased
	next.LeasedUntil = leased.LeasedUntil.Add(time.Since(began) - lease) // the database's time now, measured by the node's clock
	switch {
	case err == nil:
		next.Position, next.Failures, next.LastError = p.next, 0, ""
		if leased.Failures > 0 {
			h.Log.InfoContext(ctx, "webhook: delivers again", "webhook", h.name, "failures", leased.Failures)
		}
	case ctx.Err() == nil: // otherwise the node is stopping, and the attempt does not count
		next.Failures++
		next.Stopped = res != nil && res.StatusCode == http.StatusGone
		next.NextAt = next.LeasedUntil.Add(pauseAfter(next.Failures, res, h.Clock()))
		text := err.Error()
		next.LastError = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
		if leased.Failures == 0 || next.Stopped {
			h.Log.WarnContext(ctx, "webhook: an attempt failed, and all changes from there on wait", "webhook", h.name, "error", next.LastError, "stopped", next.Stopped)
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.Store.Timeout)
	defer cancel()
	_, err = h.Store.SwapWebhook(ending, leased, next)
	return err
}
