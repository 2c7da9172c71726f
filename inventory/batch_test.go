package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
)

// A paused gate stops every script call, before or after Redis runs it, until the test
// releases the calls.
type paused struct {
	KeeperGate
	sku     string
	calls   chan struct{} // one message for each stopped call
	free    chan struct{} // closed to release all calls
	answers sync.WaitGroup

	mu       sync.Mutex
	sizes    []int
	inFlight atomic.Int64
	peak     atomic.Int64 // largest number of concurrent calls
}

// inFlight is the largest number of concurrent calls of a SKU.
const inFlight = 2

type pausedAt int

const (
	beforeRedis pausedAt = iota
	afterRedis
)

// pause opens a sale of total units whose gate is paused.
func pause(t *testing.T, rdb *redis.Client, at pausedAt, total, perBuyer int64) (h *paused, sku string) {
	t.Helper()
	sku = newSKU()
	open(t, newGate(rdb, patient), sku, total, perBuyer)
	check.Must(t, reserveScript.Load(t.Context(), rdb).Err())
	h = &paused{sku: sku, calls: make(chan struct{}, 1000), free: make(chan struct{})}
	client := hooked(t, rdb, func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) (err error) {
		now := h.inFlight.Add(1)
		defer h.inFlight.Add(-1)
		for peak := h.peak.Load(); now > peak && !h.peak.CompareAndSwap(peak, now); peak = h.peak.Load() {
		}
		if at == afterRedis {
			err = next(ctx, cmd)
		}
		h.calls <- struct{}{}
		<-h.free
		if at == beforeRedis {
			err = next(ctx, cmd)
		}
		return err
	})
	h.KeeperGate = newGate(client, Config{Timeout: time.Minute, OnBatch: func(b Batch) {
		h.mu.Lock()
		h.sizes = append(h.sizes, b.Requests)
		h.mu.Unlock()
	}})
	return h, sku
}

// call reserves in the background and passes the result to got.
func (h *paused) call(ctx context.Context, r Request, got func(Reservation, error)) {
	h.answers.Go(func() { got(h.Reserve(ctx, r)) })
}

// fill makes as many concurrent calls as are allowed, and waits until all are stopped.
func (h *paused) fill(t *testing.T) {
	t.Helper()
	for i := range inFlight {
		h.call(t.Context(), order(h.sku, fmt.Sprint("first-", i), "first"), func(_ Reservation, err error) {
			if err != nil {
				t.Errorf("order first-%d: got error %v, want none", i, err)
			}
		})
		<-h.calls
	}
}

// queued waits until n callers wait for the next call, in addition to the callers of
// fill.
func (h *paused) queued(t *testing.T, n int) {
	t.Helper()
	check.Eventually(t, fmt.Sprint(n, " callers queued"), func() bool { return h.state(h.sku).group.Len() == inFlight+n })
}

func (h *paused) release() {
	close(h.free)
	h.answers.Wait()
}

// taken reports whether an order has a hold. An order with a hold must be queued, and no
// other.
func taken(t *testing.T, g KeeperGate, sku, id string) bool {
	t.Helper()
	view := inspect(t, g, sku)
	_, _, holds, err := g.FindHold(t.Context(), id, "another", sku)
	check.Must(t, err)
	if queued := slices.ContainsFunc(view.Orders, func(q QueuedOrder) bool { return q.OrderID == id }); queued != holds {
		t.Errorf("order %s: got hold %v, queued %v, want both or neither", id, holds, queued)
	}
	return holds
}

func TestCallersShareCalls(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		h, sku := pause(t, rdb, beforeRedis, 1000, 1000)
		h.fill(t)
		const callers = 2 * 256
		for i := range callers {
			h.call(t.Context(), order(sku, fmt.Sprint("o", i), "ann"), func(r Reservation, err error) {
				if err != nil || r.OrderID != fmt.Sprint("o", i) {
					t.Errorf("order o%d: got %+v, error %v, want its own acceptance", i, r, err)
				}
			})
		}
		h.queued(t, callers)
		h.release()
		slices.Sort(h.sizes)
		if !slices.Equal(h.sizes, []int{1, 1, 256, 256}) {
			t.Errorf("sizes of the calls: got %v, want 1, 1, 256, 256", h.sizes)
		}
		if peak := h.peak.Load(); peak != inFlight {
			t.Errorf("concurrent calls to Redis: got %d, want %d", peak, inFlight)
		}
		if view := inspect(t, h.KeeperGate, sku); view.Available != 1000-callers-2 || view.Holds != callers+2 {
			t.Errorf("gate of the sale: got %d available, %d holds, want %d and %d", view.Available, view.Holds, 1000-callers-2, callers+2)
		}
	})
}

// A caller that gives up before its request is sent takes no units. If the request was
// sent, the order keeps its units.
func TestCallerGivesUp(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		giveUp := func(t *testing.T, h *paused, id string, sent func()) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			gaveUp := make(chan error, 1)
			h.call(ctx, order(h.sku, id, "ann"), func(_ Reservation, err error) { gaveUp <- err })
			sent()
			cancel()
			check.Is(t, <-gaveUp, context.Canceled)
			h.release()
			check.Must(t, h.Wait(t.Context())) // the first call of a node may be sent twice: see reserveTries
		}
		t.Run("queued", func(t *testing.T) {
			h, sku := pause(t, rdb, beforeRedis, 10, 10)
			h.fill(t)
			giveUp(t, h, "o", func() { h.queued(t, 1) })
			if taken(t, h.KeeperGate, sku, "o") {
				t.Error("order that was not sent: it has units, want none")
			}
		})
		for at, name := range map[pausedAt]string{beforeRedis: "sent", afterRedis: "answered by Redis"} {
			t.Run(name, func(t *testing.T) {
				h, sku := pause(t, rdb, at, 10, 10)
				giveUp(t, h, "o", func() { <-h.calls })
				if !taken(t, h.KeeperGate, sku, "o") {
					t.Error("order that was sent: it has no units, want them")
				}
			})
		}
		t.Run("before", func(t *testing.T) {
			sku := newSKU()
			g := newGate(rdb, patient)
			open(t, g, sku, 10, 10)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := g.Reserve(ctx, order(sku, "o", "ann")); !errors.Is(err, context.Canceled) || taken(t, g, sku, "o") {
				t.Errorf("order with a cancelled context: got error %v, want %v and no units taken", err, context.Canceled)
			}
		})
	})
}

// A Redis that hangs does not fill the memory of a node. Wait waits for the calls that
// hang.
func TestTooManyCallers(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		h, sku := pause(t, rdb, beforeRedis, 10, 10)
		h.state(sku).group.MaxCallers = inFlight + 1
		h.fill(t)
		h.call(t.Context(), order(sku, "last", "ann"), func(_ Reservation, err error) { check.Must(t, err) })
		h.queued(t, 1)
		check.Is(t, check.Err(h.Reserve(t.Context(), order(sku, "over", "ann"))), ErrBusy)
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		check.Is(t, h.Wait(soon), context.DeadlineExceeded)
		h.release()
		check.Must(t, h.Wait(t.Context()))
		if !taken(t, h.KeeperGate, sku, "last") || taken(t, h.KeeperGate, sku, "over") {
			t.Error("units at the full queue: got some of the refused order, or none of the accepted order")
		}
	})
}

// Redis accepts connections but does not answer.
func TestRedisDoesNotAnswer(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		client, w := wired(t, rdb)
		sku, timeout := newSKU(), 100*time.Millisecond
		g := newGate(client, Config{Timeout: timeout})
		open(t, g, sku, 100, 100) // enough for all callers
		soon(t, g, order(sku, "before", "ann"))
		mend := w.DropTraffic(wire.Answers)
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				_, err := g.Reserve(t.Context(), order(sku, fmt.Sprint("o", i), "ann"))
				var refusal *Refusal
				if err == nil || errors.As(err, &refusal) {
					t.Errorf("order o%d without an answer from Redis: got error %v, want an error that is not a refusal", i, err)
				}
			})
		}
		callers.Wait()
		check.Must(t, g.Wait(t.Context()))
		mend()
		soon(t, g, order(sku, "after", "bob"))
	})
}

// If a reply is lost, the client sends the call again.
func TestLostReplyTakesUnitsOnce(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		run := func(t *testing.T) (resent, once bool) {
			client, w := wired(t, rdb)
			g, sku := newGate(client, patient), newSKU()
			open(t, g, sku, 10, 10)
			reserve(t, g, order(sku, "before", "ann"))
			lost := w.LoseAnswers(1, wire.Contains("bob"))
			r := Request{OrderID: "o", SKU: sku, Buyer: "bob", Quantity: 3}
			got := reserve(t, g, r)
			view := inspect(t, g, sku)
			hold := rdb.HGet(t.Context(), keys.Holds(sku), "o").Val()
			if hold != fmt.Sprintf("3 %d bob", got.AcceptedAt.UnixMilli()) {
				t.Errorf("order accepted at %v: got the hold %q, want that time and buyer in it", got.AcceptedAt, hold)
			}
			return lost() == 1, view.Available == 6 && view.QueuedUnits() == 4 && rdb.XLen(t.Context(), keys.Queue(sku)).Val() == 2
		}
		if resent, once := run(t); !resent || !once {
			t.Errorf("order with a lost reply: got resent %v, taken once %v, want both", resent, once)
		}
		t.Run("twin", func(t *testing.T) {
			reserveTwin(0, "", "elseif holds[i] or fresh[id] then", "elseif fresh[id] then").use(t)
			if resent, once := run(t); !resent || once {
				t.Errorf("order with a lost reply, broken twin: got resent %v, taken once %v, want only the first", resent, once)
			}
		})
	})
}

// A wrong estimate of Redis's clock is corrected with the first reply, and callers do not
// notice.
func TestRedisClockIsCorrected(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 100, 100)
		for i, off := range []time.Duration{-time.Hour, -1500 * time.Millisecond, time.Hour} {
			reserve(t, g, order(sku, fmt.Sprint("a", i), "ann"))
			g.state(sku).clock.saw(time.Now().Add(off).UnixMilli())
			reserve(t, g, order(sku, fmt.Sprint("b", i), "ann"))
			if d := time.Until(time.UnixMilli(g.state(sku).clock.until(time.Now()))); d > 0 || d < -500*time.Millisecond {
				t.Errorf("Redis clock off by %v: got an estimate %v ahead of it, want 0 to 500ms behind", off, d)
			}
		}
	})
}
