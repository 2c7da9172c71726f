package broken

import (
	"context"
	_ "embed"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
)

// getDecr reads what is left, decides in the program, and decrements.
//
// What breaks it: 1 unit is left. A reads 1. B reads 1. A decrements: 0, and
// sells. B decrements: −1, and sells. In tests it never happens, in a rush it
// happens to everybody who read before the first one decremented; a crowd
// (crowd.go) brings them together here, so that no luck is needed.
//
// Right: decide and take in one step that nobody can come between, as
// reserve.lua does (or `UPDATE … SET sold = sold + n WHERE sold + n <= total`).
//
// In the wild: the commonest of all, as GET and DECR or as SELECT and UPDATE;
// also as a script that tests `total >= sold` before it adds, which is one too
// many (GuoZhaoran/spikeSystem).
type getDecr struct {
	rdb    redis.UniversalClient
	crowds sync.Map // sku → *crowd
}

var (
	//go:embed get.lua
	getLua string
	//go:embed decr.lua
	decrLua string

	getScript  = redis.NewScript(requestLua + getLua)
	decrScript = redis.NewScript(requestLua + decrLua)
)

func (g *getDecr) reserve(ctx context.Context, r inventory.Request) (inventory.Reservation, error) {
	c, _ := g.crowds.LoadOrStore(r.SKU, newCrowd())
	others := c.(*crowd)

	if err := others.enter(ctx); err != nil {
		return inventory.Reservation{}, err
	}
	seen, answer, err := g.look(ctx, r)
	if seen == nil {
		others.leave()
		return answer, err
	}
	if seen.left < r.Quantity {
		others.leave()
		return inventory.Reservation{}, &inventory.Refusal{Reason: inventory.ErrSoldOut, Known: seen.known}
	}
	// THE MISTAKE: between the look above and the decrement below, others do
	// the same.
	if err := others.meet(ctx, r.Quantity, seen.left, seen.total); err != nil {
		return inventory.Reservation{}, err
	}
	defer others.done()
	return reserve(ctx, g.rdb, decrScript, r)
}

// seen is what was on sale a moment ago.
type seen struct {
	left, total int64
	known       bool // the buyer has had an order
}

// look reads what is left; or returns nil, and the answer, where that does not
// hang on what is left.
func (g *getDecr) look(ctx context.Context, r inventory.Request) (*seen, inventory.Reservation, error) {
	reply, err := run(ctx, g.rdb, getScript, r)
	if err != nil {
		return nil, inventory.Reservation{}, err
	}
	values, ok := reply.([]any)
	if !ok {
		answer, err := inventory.Outcome(r.OrderID, reply)
		return nil, answer, err
	}
	var n [3]int64
	if len(values) != len(n) {
		return nil, inventory.Reservation{}, fmt.Errorf("get.lua answered %v", values)
	}
	for i := range n {
		n[i], _ = values[i].(int64)
	}
	return &seen{left: n[0], total: n[1], known: n[2] == 1}, inventory.Reservation{}, nil
}
