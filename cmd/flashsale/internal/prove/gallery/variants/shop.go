// Package variants is a gallery of ways to sell limited stock. Each way is one small
// file that shows the idea, or the mistake, and little else. Five files contain what
// all variants share:
//
//	shop.go         the interface Shop, and the list of all variants
//	tables.go       sales and orders in the database
//	close.go        paying, cancelling and expiring in one conditional update
//	counter.go      stock counted in Redis, orders in the database
//	transaction.go  stock and orders in the database, in one transaction
//
// A broken variant differs from its right base in one step. To add a variant, add a
// file of the variant's name that calls show.
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

// Errors of a Shop.
var (
	ErrSoldOut    = errors.New("variants: the sale is sold out")
	ErrBuyerLimit = errors.New("variants: the buyer's limit is reached")
	ErrBusy       = errors.New("variants: too many conflicts with concurrent orders") // nothing was sold
	ErrNotFound   = errors.New("variants: the order does not exist")
)

// buyersPatience is the time after which a waiting order fails with ErrBusy.
const buyersPatience = 25 * time.Second

// A Shop is one process that sells. After a crash, another process on the same
// stores takes over. All methods are safe for concurrent use.
type Shop interface {
	// Open starts a new sale.
	Open(ctx context.Context, s Sale) error
	// Order stores o durably, or refuses it with ErrSoldOut, ErrBuyerLimit or
	// ErrBusy. After any other error the outcome is unknown. If the buyer has an
	// order under the same key, Order returns that order, and replayed is true.
	Order(ctx context.Context, o Order) (sold Order, replayed bool, err error)
	// Pay turns a pending order into a paid one. It does not change other orders.
	Pay(ctx context.Context, o Order) error
	// Close turns a pending order into a Cancelled or Expired one and releases its
	// units. It does not change other orders.
	Close(ctx context.Context, o Order, as string) error
	// Find returns a stored order, or ErrNotFound.
	Find(ctx context.Context, id string) (Order, error)
	// Sale returns a sale as it was opened, or ErrNotFound.
	Sale(ctx context.Context, sku string) (Sale, error)
	// Orders returns up to n orders of a sale, sorted by id, with ids above after.
	Orders(ctx context.Context, sku, after string, n int) ([]Order, error)
	// Sold returns the units in pending and in paid orders.
	Sold(ctx context.Context, sku string) (pending, paid int, err error)
	// Stock returns the units that are not sold.
	Stock(ctx context.Context, sku string) (Stock, error)
	// Run expires orders and does other background work until ctx ends.
	Run(ctx context.Context) error
}

// A Sale describes the terms of a sale. Amounts are units.
type Sale struct {
	SKU           string
	Total         int
	UnitsPerBuyer int
	WindowMS      int64 // time to pay

	OnPayment bool // payments take the units, not orders
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
	Released                               bool // closed, and its units are available again
}

// Stock counts the units that are not sold.
type Stock struct {
	Available int
	Queued    int // taken by an order that is not yet a row
	Restoring int // units of closed orders, not yet available
}

// A Variant is a shop and its description.
type Variant struct {
	Name   string `json:"name"`
	Does   string `json:"does"`             // in a few words
	Breaks string `json:"breaks,omitempty"` // one sentence on how the variant breaks; empty if the variant is right
	Source string `json:"source"`           // projects or texts that contain the variant
	Caught string `json:"caught,omitempty"` // name of the violation that a verdict must contain; empty if it is right
	Note   string `json:"note,omitempty"`   // remark on the meaning of its figures; usually empty
	MySQL  bool   `json:"-"`                // the variant needs row locks, which SQLite does not have

	OnPayment bool `json:"-"` // its units are taken by payments, so payments are judged and measured

	New func(Stores) Shop `json:"-"`
}

// Broken reports whether the variant is wrong on purpose.
func (v Variant) Broken() bool { return v.Caught != "" }

// All returns the variants, broken ones first, each group sorted by name.
func All() []Variant {
	all := slices.Clone(shown)
	slices.SortFunc(all, func(a, b Variant) int {
		rank := map[bool]int{true: 0, false: 1}
		return cmp.Or(rank[a.Broken()]-rank[b.Broken()], strings.Compare(a.Name, b.Name))
	})
	return all
}

// Lua is the strategy name of this project's own service.
const Lua = "lua"

// Strategies returns the names that demo and drill accept: Lua and the variants.
func Strategies() []string {
	names := []string{Lua}
	for _, v := range All() {
		names = append(names, v.Name)
	}
	return names
}

// CheckStrategy returns an error that lists the strategies if name is unknown.
func CheckStrategy(name string) error {
	if slices.Contains(Strategies(), name) {
		return nil
	}
	return fmt.Errorf("--strategy: got %q, want one of %s", name, strings.Join(Strategies(), ", "))
}

// Find returns the variant of this name.
func Find(name string) (v Variant, known bool) {
	i := slices.IndexFunc(shown, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return v, false
	}
	return shown[i], true
}

var shown []Variant

// show registers a variant. Each variant's file calls it once.
func show(v Variant) Variant {
	shown = append(shown, v)
	return v
}
