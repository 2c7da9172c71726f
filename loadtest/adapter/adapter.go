// Package adapter puts a shop that other people wrote behind the HTTP contract of the load test.
// An author implements Shop with calls to the shop, and serves the result of Handler. The README
// shows how.
//
// Handler does not verify the signatures of tokens, and accepts an operator's calls without a
// token. It must listen on a loopback address only.
package adapter

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"flashsale/loadtest/judge"
)

// About describes a shop. Handler adds the features that it can see to be missing: a feed, and
// the features of Limiter, Payer, Canceller and Counter.
type About = judge.About

// Shop makes the calls of one shop. Its methods are called concurrently. A context ends when the
// client stops waiting.
//
// An error other than the errors of this package means that the outcome is unknown. The client
// then makes the same call again, except for Order if the shop lacks judge.Keys.
type Shop interface {
	About() About

	// Open creates a product with the SKU sku and puts units of it on sale. Price is the price
	// of a unit in minor units of the currency. After an error, Open is called again.
	Open(ctx context.Context, sku string, units int, price int64, currency string) error

	// Order orders units for a buyer, up to the step after which the shop owes the buyer the
	// units. It returns ErrSoldOut or ErrLimit if the shop refuses the order for that reason.
	// If the shop has no idempotency keys, Order stores key with the order, for example as a
	// note, so that Rows can return it. It ignores key if there is no place for it.
	Order(ctx context.Context, sku, buyer, key string, units int) (Order, error)

	// Rows reads all accepted orders of sku from the shop. The results of Order must not be
	// kept for it, because Rows is the evidence against them. An empty Status means
	// judge.Pending, and an empty SKU means sku. Key is empty if the shop cannot store it.
	Rows(ctx context.Context, sku string) ([]judge.Row, error)
}

// Order is an order that the shop has accepted.
type Order struct {
	ID        string    // the shop's id of the order
	Status    string    // a status of package judge; empty means judge.Pending
	ExpiresAt time.Time // zero if the order does not expire
	Replayed  bool      // the key was used before, and this is its order
}

// Limiter is implemented by a shop that can limit the units of a buyer. Limit is called after
// Open.
type Limiter interface {
	Limit(ctx context.Context, sku string, unitsPerBuyer int) error
}

// Payer is implemented by a shop in which an accepted order is paid by a call of its own. Pay
// returns nil if ref has paid the order before, ErrPaid if another reference has, and ErrClosed
// if the order is cancelled or expired. If the payment takes the units, Pay may return ErrSoldOut
// or ErrLimit.
type Payer interface {
	Pay(ctx context.Context, sku, id, ref string) error
}

// Canceller is implemented by a shop in which an order can be cancelled. Cancel returns nil if
// the order is cancelled already, ErrPaid if it is paid, and ErrClosed if it is expired.
type Canceller interface {
	Cancel(ctx context.Context, sku, id string) error
}

// Counter is implemented by a shop that reports how many units are left. Left is read during the
// attack as well. If it is calculated from the orders, About.Lacks contains judge.Counter.
type Counter interface {
	Left(ctx context.Context, sku string) (int, error)
}

// Errors with which a shop refuses a call. They may be wrapped.
var (
	ErrSoldOut error = &problem{http.StatusConflict, "sold_out", "fewer units are left than the order asks for"}
	ErrLimit   error = &problem{http.StatusConflict, "buyer_limit", "the buyer has reached the limit"}
	ErrClosed  error = &problem{http.StatusConflict, "order_closed", "the order is cancelled or expired"}
	ErrPaid    error = &problem{http.StatusConflict, "already_paid", "the order is paid"}
)

// Token returns an unsigned token for subject. A program that runs a load test against a Handler
// uses it as loadtest.Config.Token.
func Token(subject string, _ bool) (string, error) {
	claims, err := json.Marshal(map[string]string{"sub": subject})
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".", err
}
