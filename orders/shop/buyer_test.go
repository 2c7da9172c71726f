package shop

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// failingPool is a pool on which the query for an order by id and buyer fails.
type failingPool struct{ *sql.DB }

func (p failingPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if strings.Contains(query, "id = ? AND buyer = ?") {
		return nil, kit.ErrFault
	}
	return p.DB.QueryContext(ctx, query, args...)
}

func (p failingPool) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, o)
	return &failingTx{tx}, err
}

// failingTx is a transaction on a failingPool.
type failingTx struct{ *sql.Tx }

func (t *failingTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if strings.Contains(query, "id = ? AND buyer = ?") {
		return nil, kit.ErrFault
	}
	return t.Tx.QueryContext(ctx, query, args...)
}

// failingFindHold is a Gate that cannot be asked for a hold.
type failingFindHold struct{ Gate }

func (failingFindHold) FindHold(context.Context, string, ...string) (string, inventory.Hold, bool, error) {
	return "", inventory.Hold{}, false, kit.ErrFault
}

// Order looks for the key if no order has the id, also while the gate cannot be asked. After an
// error of the database it does not, because the order with the key may be another one.
func TestOrderByKeyOnlyIfTheIDIsUnknown(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b, ctx := bare.Open(t, s, kit.Sale("S", 2, 2)), t.Context()
		first, second := b.Reserve(t, "ann", "k", 1), b.Reserve(t, "ann", "l", 1)
		b.Keeper(t, "S").Finish(t)
		db, err := b.Store.DB.DB()
		check.Must(t, err)
		cfg := Config{Store: kit.Onto(t, b.Store.WithPool, failingPool{db}), Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t)}
		if o, err := New(cfg).Order(ctx, "ann", first, "S", "l"); err == nil {
			t.Errorf("order %s, while the database fails: got %s, want an error", first, o.ID)
		} else {
			check.Is(t, err, kit.ErrFault)
		}
		cfg.Store, cfg.Gate = b.Store, failingFindHold{b.Gate}
		if o, err := New(cfg).Order(ctx, "ann", uuid.NewString(), "S", "l"); err != nil || o.ID != second {
			t.Errorf("order with key l, while the gate cannot be asked: got %+v, error %v, want %s", o, err, second)
		}
	})
}
