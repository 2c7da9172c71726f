// Package variants is a gallery of ways to sell limited stock, each in one small
// file that shows the idea, or the mistake, and little else. What all of them
// need and none gets wrong is in five files:
//
//	shop.go         what a shop is, and the list of all
//	tables.go       sales and orders in the database
//	close.go        paying, cancelling and expiring in one conditional update
//	counter.go      stock counted in Redis, orders in the database
//	transaction.go  stock and orders in the database, in one transaction
//
// A broken shop differs from its right base in one step. Adding a shop is
// adding a file that calls show, named like the shop.
package variants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What a shop may answer besides yes.
var (
	ErrSoldOut    = errors.New("variants: sold out")
	ErrBuyerLimit = errors.New("variants: buyer's limit")
	ErrBusy       = errors.New("variants: too many at once") // nothing was sold
	ErrNotFound   = errors.New("variants: not found")
)

// buyersPatience is how long a buyer may wait for others before ErrBusy.
const buyersPatience = 25 * time.Second

// A Shop is one process that sells. When it is gone, another one on the same
// stores takes over. All methods are safe for concurrent use.
type Shop interface {
	// Open puts a sale up that was not there before.
	Open(ctx context.Context, s Sale) error
	// Order sells o, durably, or refuses it: ErrSoldOut, ErrBuyerLimit,
	// ErrBusy. After any other error the outcome is unknown. Under a key that
	// was used before it returns that order, and replayed.
	Order(ctx context.Context, o Order) (sold Order, replayed bool, err error)
	// Pay turns a pending order into a paid one; it does nothing to others.
	Pay(ctx context.Context, o Order) error
	// Close turns a pending order into a Cancelled or Expired one and gives its
	// units back; it does nothing to others.
	Close(ctx context.Context, o Order, as string) error
	// Find returns an order as it is stored: ErrNotFound.
	Find(ctx context.Context, id string) (Order, error)
	// Sale returns a sale as it was opened: ErrNotFound.
	Sale(ctx context.Context, sku string) (Sale, error)
	// Orders returns up to n orders of a sale by id, from the one after an id.
	Orders(ctx context.Context, sku, after string, n int) ([]Order, error)
	// Sold is how many units pending and paid orders have.
	Sold(ctx context.Context, sku string) (pending, paid int, err error)
	// Stock says where the other units are.
	Stock(ctx context.Context, sku string) (Stock, error)
	// Run does what nobody asks for, such as expiry, until ctx ends.
	Run(ctx context.Context) error
}

// A Sale is what is sold. Amounts are units.
type Sale struct {
	SKU      string
	Total    int
	PerBuyer int
	WindowMS int64 // time to pay

	OnPayment bool // units are taken by payments, and not by orders
}

// Statuses of an order.
const (
	Pending   = "pending_payment"
	Paid      = "paid"
	Cancelled = "cancelled"
	Expired   = "expired"
)

// An Order is one row. Times are in Unix milliseconds, 0 for never.
type Order struct {
	ID, SKU, Buyer, Key                    string
	Quantity                               int
	Status                                 string
	CreatedMS, ExpiresMS, PaidMS, ClosedMS int64
	Restored                               bool // closed, and its units are back
}

// Stock is where units are.
type Stock struct {
	Available int
	Held      int // taken, and not yet in a row
	Restoring int // closed, and not yet available
}

// A Variant is a shop and what there is to say about it.
type Variant struct {
	Name   string `json:"name"`
	Does   string `json:"does"`             // in a few words
	Breaks string `json:"breaks,omitempty"` // the steps that break it, in one sentence; "" for a right one
	Source string `json:"source"`           // where it was seen, or what it is known from
	Caught string `json:"caught,omitempty"` // what a verdict must find, a violation's name; "" for a right one
	Note   string `json:"note,omitempty"`   // what its figures are, where they are not like the others'; or ""
	MySQL  bool   `json:"-"`                // needs row locks, which SQLite has not

	OnPayment bool `json:"-"` // shows how to take units on payment: it is judged and measured by payments

	New func(Stores) Shop `json:"-"`
}

// Broken tells whether it sells wrongly.
func (v Variant) Broken() bool { return v.Caught != "" }

// All are the variants: the broken ones first, each kind by name.
func All() []Variant {
	all := slices.Clone(shown)
	slices.SortFunc(all, func(a, b Variant) int {
		rank := map[bool]int{true: 0, false: 1}
		return cmp.Or(rank[a.Broken()]-rank[b.Broken()], strings.Compare(a.Name, b.Name))
	})
	return all
}

// Lua is the strategy that is this project's own.
const Lua = "lua"

// Strategies are the ways to sell that demo and drill know: this project's, and
// those of the gallery.
func Strategies() []string {
	names := []string{Lua}
	for _, v := range All() {
		names = append(names, v.Name)
	}
	return names
}

// CheckStrategy returns an error that lists the strategies if name is none.
func CheckStrategy(name string) error {
	if slices.Contains(Strategies(), name) {
		return nil
	}
	return fmt.Errorf("strategy: %q is none of %s", name, strings.Join(Strategies(), ", "))
}

// Find returns the variant of that name.
func Find(name string) (v Variant, known bool) {
	i := slices.IndexFunc(shown, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return v, false
	}
	return shown[i], true
}

var shown []Variant

// show is called by each variant's file.
func show(v Variant) Variant {
	shown = append(shown, v)
	return v
}
