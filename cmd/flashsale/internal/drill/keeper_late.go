package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

var keeperLate = drill{
	name: "keeper-late",
	happens: "what a keeper has sent arrives after another one took over: " +
		"a script at Redis while it is paused, a transaction at MySQL while it believes in a lock that Redis has lost",
	sees:  "503 for what that node has in its hands; a pause of one lease at most",
	never: "what it wrote changing anything",
	wires: true,
	harm: func(ctx context.Context, s *stage) error {
		if err := s.moment(ctx); err != nil {
			return err
		}
		a, err := s.openAside(ctx, 20, asideWindow)
		if err != nil {
			return err
		}
		defer a.close()
		for attempt := 1; ; attempt++ {
			stale, err := a.lateTransaction(ctx)
			if err != nil {
				return fmt.Errorf("a late transaction: %w", err)
			}
			if stale {
				break
			}
			if attempt == 5 {
				return fmt.Errorf("a keeper never believed in a lost lock for long enough, in %d attempts", attempt)
			}
		}
		if err := a.lateScript(ctx); err != nil {
			return fmt.Errorf("a late script: %w", err)
		}
		return nil
	},
}

// lateScript holds the keeper's script that brings a new total to the gate,
// pauses the keeper, and lets the script arrive when the next one has brought
// another total.
func (a *aside) lateScript(ctx context.Context) (err error) {
	const known, late, newer = 1021, 1022, 1023
	if err := a.putUntil(ctx, known); err != nil { // Redis knows the script by now
		return err
	}
	epoch, err := a.epoch(ctx)
	if err != nil {
		return err
	}
	operator := make(chan struct{})
	go func() {
		_ = a.put(ctx, late) // 503: the change is on its way
		close(operator)
	}()
	keeper, script, err := a.catchAny(ctx, "a keeper brings the new total to the gate", func(n *node) (*wire, *catch) {
		total := fmt.Sprintf("\r\n%d\r\n", late)
		return n.redisWire, n.redisWire.hold(func(sent string) bool {
			return strings.Contains(sent, total) && strings.Contains(sent, a.key(""))
		})
	})
	if err != nil {
		return err
	}
	defer script.drop()
	if err := keeper.Pause(); err != nil {
		return err
	}
	a.did("%s paused, the keeper, its script on the way", keeper.name)
	defer func() { err = errors.Join(err, keeper.Resume()) }()
	<-operator
	if err := a.putUntil(ctx, newer); err != nil {
		return err
	}
	script.pass()
	var answer string
	if err := a.until(ctx, "Redis answers the script", func(context.Context) bool {
		select {
		case answer = <-script.answer:
			return true
		default:
			return false
		}
	}); err != nil {
		return err
	}
	if strings.Contains(answer, "NOSCRIPT") {
		return errors.New("the script is not known to Redis")
	}
	a.did("another took over, the script arrives: %.40q", answer)
	if total := a.gate(ctx, "total"); total != newer {
		a.broke("fence: the gate took a total of %d from a keeper that had been replaced, after %d from the next", total, newer)
	}
	return a.balanced(ctx, epoch)
}

// lateTransaction holds the keeper's transaction that would store an order.
// Redis loses all it had of the sale, the lock too, and another node takes over
// and makes the gate anew; then the transaction goes on. It returns false where
// the keeper had noticed by then, and nothing was put to the test.
func (a *aside) lateTransaction(ctx context.Context) (stale bool, err error) {
	fence, err := a.kept(ctx)
	if err != nil {
		return false, err
	}
	bought := make(chan placed, 1)
	go func() {
		p, _ := a.queue(ctx)
		bought <- p
	}()
	keeper, statement, err := a.catchAny(ctx, "a keeper stores an order", func(n *node) (*wire, *catch) {
		return n.mysqlWire, n.mysqlWire.hold(func(sent string) bool {
			return strings.Contains(sent, "'"+a.sku+"'") && strings.Contains(sent, "FOR UPDATE")
		})
	})
	if err != nil {
		return false, err
	}
	defer statement.drop()
	order := <-bought
	if order.ID == "" {
		return false, errors.New("the order was not queued")
	}
	// It does not hear of its loss until its own clock tells it.
	renewals := keeper.redisWire.holdAll(func(sent string) bool { return strings.Contains(sent, a.lock()) })
	defer func() { keeper.redisWire.disarm(renewals); renewals.drop() }()
	const lost = "flashsale_keeper_leases_lost_total"
	fenced, leases := keeper.metric(ctx, "flashsale_keeper_fenced_total"), keeper.metric(ctx, lost)
	gone := []string{a.lock(), a.key("")}
	for _, rest := range []string{":holds", ":buyers", ":queue", ":keys"} {
		gone = append(gone, a.key(rest))
	}
	if err := a.redis.Del(ctx, gone...).Err(); err != nil {
		return false, err
	}
	a.did("Redis loses the sale and its lock, %s about to store an order", keeper.name)
	err = a.until(ctx, "another keeper has made the gate anew", func(ctx context.Context) bool {
		now, err := a.fence(ctx)
		return err == nil && now > fence && a.gate(ctx, "available") >= 0
	})
	if err != nil {
		return false, err
	}
	epoch, err := a.epoch(ctx)
	if err != nil {
		return false, err
	}
	statement.pass()
	within, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	err = a.until(within, "the transaction arrives", func(ctx context.Context) bool {
		n, err := a.count(ctx, "id = '"+order.ID+"'")
		if stale = err == nil && n > 0; stale {
			a.broke("fence: a keeper that had been replaced stored an order of a queue that Redis had lost")
		}
		stale = stale || keeper.metric(ctx, "flashsale_keeper_fenced_total") > fenced
		return stale || keeper.metric(ctx, lost) > leases
	})
	if !stale {
		return false, ctx.Err() // whatever the matter was, the keeper has noticed
	}
	a.did("its transaction arrives")
	return true, errors.Join(err, a.balanced(ctx, epoch))
}

// kept waits until nobody takes the sale over any more, and returns the fence.
func (a *aside) kept(ctx context.Context) (fence int64, err error) {
	since := time.Now()
	err = a.until(ctx, "the sale aside is kept", func(ctx context.Context) bool {
		now, err := a.fence(ctx)
		if err != nil || now != fence {
			fence, since = now, time.Now()
		}
		return time.Since(since) > lease/4
	})
	return fence, err
}
