package ratelimit

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// late is a hook that stops calls that give tokens back. It then sends them, or loses
// them as a node does that crashes.
type late struct {
	held chan struct{} // closed when a call is stopped
	send chan bool     // true sends the call, false loses the call
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

// Between taking and giving back, another request is refused a token that becomes free
// again. A moment later it is allowed. If the node crashes in between, it is allowed
// after the refill.
func TestSlotsBetweenTakingAndGivingBack(t *testing.T) {
	for _, dies := range []bool{false, true} {
		server, client := startEmbedded(t)
		loaded(t, client)
		now := epoch
		l := New(client, Config{Timeout: time.Minute, Remember: slotRemember, Clock: func() time.Time { return now }})
		l.perSlot = true
		buyer, sku := forBuyer("b1", parse(t, "1/h:1")), forSKU("s1", parse(t, "1/h:1"))
		allow(t, l, 1, sku) // the bucket is empty now
		h := late{held: make(chan struct{}), send: make(chan bool)}
		client.AddHook(h)
		refused := make(chan Result)
		go func() { refused <- allow(t, l, 1, buyer, sku) }()
		<-h.held
		if r := allow(t, l, 1, buyer); r.Allowed || r.Remembered {
			t.Errorf("other request in between: got %+v, want refused by Redis", r)
		}
		h.send <- !dies
		if r := <-refused; r.Allowed || r.Bucket != "sku" {
			t.Errorf("refused request: got %+v, want refused by the SKU's bucket", r)
		}
		now = now.Add(slotRemember)
		server.SetTime(now)
		if r := allow(t, l, 1, buyer); r.Allowed == dies {
			t.Errorf("request a moment later, node crashed %v: got %+v, want it allowed only if the tokens were given back", dies, r)
		}
		now = now.Add(time.Hour)
		server.SetTime(now)
		if r := allow(t, l, 1, buyer); !r.Allowed {
			t.Errorf("other request after the refill: got %+v, want allowed", r)
		}
	}
}
