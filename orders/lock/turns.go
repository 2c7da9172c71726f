package lock

import (
	"context"

	"flashsale/orders/lock/internal/turn"
)

// takeTurn is turn.Turns.Take that also ends when the client stops.
func takeTurn(ctx context.Context, ls *Leases, turns *turn.Turns, key string) error {
	if err := ls.Ready(ctx); err != nil {
		return err
	}
	if turns.Try(key) {
		return nil
	}
	ctx, cancel := ls.UntilStopped(ctx)
	defer cancel()
	return turns.Take(ctx, key)
}

// UntilStopped is ctx that also ends, with ErrStopped, when Run has returned.
func (ls *Leases) UntilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ls.life, func() { cancel(ErrStopped) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}
