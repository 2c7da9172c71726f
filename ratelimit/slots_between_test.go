package ratelimit

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// late is a hook that holds give-backs until it is told to let them go, or
// loses them, as a node does that dies.
type late struct {
	held chan struct{} // closed when one is there
	send chan bool     // true: let it go; false: lose it
}

func (late) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (late) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h late) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !cmds[0].NoRetry() {
			return next(ctx, cmds)
		}
		close(h.held)
		if <-h.send {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(errLost)
		}
		return errLost
	}
}

// What slots.go owns up to: between taking and giving back, a neighbour is
// refused a token that will be free again. He gets it when he comes back a
// moment later; and when the node dies in between, when it has come in.
func TestSlotsBetweenTakingAndGivingBack(t *testing.T) {
	for _, dies := range []bool{false, true} {
		server, client := startEmbedded(t)
		loaded(t, client)
		now := epoch
		l := New(client, Config{Timeout: time.Minute, Remember: slotRemember, Clock: func() time.Time { return now }})
		l.perSlot = true
		buyer, sku := forBuyer("b1", parse(t, "1/h:1")), forSKU("s1", parse(t, "1/h:1"))
		allow(t, l, 1, sku) // it is empty now
		h := late{held: make(chan struct{}), send: make(chan bool)}
		client.AddHook(h)
		refused := make(chan Result)
		go func() { refused <- allow(t, l, 1, buyer, sku) }()
		<-h.held
		if r := allow(t, l, 1, buyer); r.Allowed || r.Remembered {
			t.Errorf("the neighbour meanwhile: %+v", r)
		}
		h.send <- !dies
		if r := <-refused; r.Allowed || r.Bucket != "sku" {
			t.Errorf("the request itself: %+v", r)
		}
		now = now.Add(slotRemember)
		server.SetTime(now)
		if r := allow(t, l, 1, buyer); r.Allowed == dies {
			t.Errorf("the neighbour a moment later, node dead %v: %+v", dies, r)
		}
		now = now.Add(time.Hour)
		server.SetTime(now)
		if r := allow(t, l, 1, buyer); !r.Allowed {
			t.Errorf("the neighbour when the token has come in: %+v", r)
		}
	}
}
