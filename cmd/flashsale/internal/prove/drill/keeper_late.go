package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers/wire"
)

// lateLease is the lease of the nodes in the drill keeper-late. It must be long, because the old
// keeper relies on a lost lock only until its lease ends by its own clock. On a busy machine,
// another node may need seconds to take over.
const lateLease = 10 * time.Second

func keeperLate(ctx context.Context, a *controlSale) error {
	err := tries(20, "no order was queued while its transaction was held, or every keeper noticed the lost lock too early",
		func() (bool, error) { return a.lateTransaction(ctx) })
	if err != nil {
		return fmt.Errorf("hold back a transaction of the old keeper: %w", err)
	}
	if err := a.lateScript(ctx); err != nil {
		return fmt.Errorf("hold back a script of the old keeper: %w", err)
	}
	return nil
}

// lateScript delays the keeper's script that changes the total at the gate, pauses the
// keeper, and deletes its lock, so that the next keeper need not wait for the end of the lease.
// The script arrives after the next keeper has set another total.
func (a *controlSale) lateScript(ctx context.Context) (err error) {
	const known, late, newer = 1021, 1022, 1023
	if err := a.putUntil(ctx, known); err != nil { // this also loads the script into Redis
		return err
	}
	epoch, err := a.epoch(ctx)
	if err != nil {
		return err
	}
	operator := make(chan struct{})
	go func() {
		_ = a.put(ctx, late) // fails with 503, because the change is delayed
		close(operator)
	}()
	keeper, script, err := a.breakpoint(ctx, "a keeper sends the new total to the gate", func(n *lab.Node) *wire.Catch {
		return n.Redis.Hold(wire.Contains(fmt.Sprintf("\r\n%d\r\n", late), a.key("")))
	})
	if err != nil {
		return err
	}
	defer script.Drop()
	if err := keeper.Pause(); err != nil {
		return err
	}
	a.did("keeper %s paused, its script delayed", keeper.Name)
	defer func() { err = errors.Join(err, keeper.Resume()) }()
	<-operator
	if err := a.redis.Del(ctx, a.lock()).Err(); err != nil {
		return err
	}
	if err := a.putUntil(ctx, newer); err != nil {
		return err
	}
	script.Pass()
	var answer string
	select {
	case answer = <-script.Answer():
	case <-time.After(lab.Patience):
		return errors.New("wait for the answer to the held script: timeout")
	}
	if strings.Contains(answer, "NOSCRIPT") {
		return errors.New("run the held script: it is not loaded in Redis")
	}
	a.did("another took over, the script arrives: %.40q", answer)
	// The gate accepts the old total, and the new keeper corrects it.
	err = a.until(ctx, "the gate has the newer total", func(ctx context.Context) bool { return a.gate(ctx, "total") == newer })
	return errors.Join(err, a.balanced(ctx, epoch))
}

// lateTransaction delays the keeper's transaction that would store an order. Redis loses
// all keys of the sale and the lock, and another node takes over. Then the transaction
// continues. lateTransaction returns false if the fence was not tested, because the held
// statement was another one, or because the keeper noticed the loss before.
func (a *controlSale) lateTransaction(ctx context.Context) (stale bool, err error) {
	fence, err := a.kept(ctx)
	if err != nil {
		return false, err
	}
	bought := make(chan placed, 1)
	go func() {
		p, _ := a.place(ctx, http.StatusAccepted, http.StatusCreated)
		bought <- p
	}()
	keeper, statement, err := a.breakpoint(ctx, "a keeper stores an order", func(n *lab.Node) *wire.Catch {
		return n.MySQL.Hold(wire.Contains("'"+a.sku+"'", "FOR UPDATE"))
	})
	if err != nil {
		return false, err
	}
	defer statement.Drop()
	order := <-bought
	if order.status != http.StatusAccepted {
		return false, ctx.Err()
	}
	// Without answers to its renewals, the keeper notices the loss only by its own clock.
	renewals := keeper.Redis.HoldAll(wire.Contains(a.lock()))
	defer renewals.Drop()
	const lost = "flashsale_keeper_leases_lost_total"
	fenced, leases := keeper.Metric(ctx, "flashsale_keeper_fenced_total"), keeper.Metric(ctx, lost)
	err = a.redis.Del(ctx, a.lock(), a.key(""), a.key(":holds"), a.key(":buyers"), a.key(":queue"), a.key(":keys")).Err()
	if err != nil {
		return false, err
	}
	a.did("Redis loses the sale and its lock while %s is about to store an order", keeper.Name)
	err = a.until(ctx, "another keeper has taken over", func(ctx context.Context) bool {
		now, err := a.inSale(ctx, "fence")
		return err == nil && now > fence
	})
	if err != nil {
		return false, err
	}
	statement.Pass()
	err = a.until(ctx, "the transaction arrives", func(ctx context.Context) bool {
		n, err := a.count(ctx, "id = '"+order.ID+"'")
		if stale = err == nil && n > 0; stale {
			a.broke("fence: a keeper that had been replaced stored an order of a queue that Redis had lost")
		}
		stale = stale || keeper.Metric(ctx, "flashsale_keeper_fenced_total") > fenced
		return stale || keeper.Metric(ctx, lost) > leases
	})
	if !stale {
		return false, err // without an error, the keeper has noticed the loss by itself
	}
	a.did("its transaction arrives")
	if err == nil {
		err = a.until(ctx, "the gate is rebuilt", func(ctx context.Context) bool { return a.gate(ctx, "available") >= 0 })
	}
	epoch, epochErr := a.epoch(ctx)
	if err = errors.Join(err, epochErr); err != nil {
		return true, err
	}
	return true, a.balanced(ctx, epoch)
}

// kept waits until takeovers of the sale have ended and its gate is built, and returns the
// fence.
func (a *controlSale) kept(ctx context.Context) (fence int64, err error) {
	since := time.Now()
	err = a.until(ctx, "the control sale is kept", func(ctx context.Context) bool {
		now, err := a.inSale(ctx, "fence")
		if err != nil || now != fence || a.gate(ctx, "available") < 0 {
			fence, since = now, time.Now()
		}
		return time.Since(since) > lease/4
	})
	return fence, err
}
