package orders

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"flashsale/inventory"
)

// A Sale is a row of the table sales.
type Sale struct {
	SKU            string    `gorm:"column:sku;primaryKey" json:"sku"`
	Name           string    `json:"name"`
	Description    string    `json:"description,omitempty"`
	ImageURL       string    `json:"image_url,omitempty"` // https URL, or a path on this server
	Price          int64     `json:"price"`               // minor units of Currency
	Currency       string    `json:"currency"`
	Total          int64     `json:"total"`                                         // units
	Sold           int64     `json:"-"`                                             // units of pending_payment and paid orders, at most Total
	UnitsPerBuyer  int64     `gorm:"column:per_buyer_limit" json:"per_buyer_limit"` // units
	OpensAt        time.Time `json:"-"`
	ClosesAt       time.Time `json:"-"`
	PaymentWindowS int64     `gorm:"column:payment_window_s" json:"payment_window_s"`
	Fence          int64     `json:"-"`          // raised by takeovers, direct mode and archiving; a keeper with a lower fence cannot commit
	Keeper         string    `json:"-"`          // node of the latest keeper, "" after Store.ClearKeeper
	Epoch          int64     `json:"-"`          // raised by each rebuild of the gate, and on entering direct mode
	Mode           string    `json:"-"`          // ModeGate, ModeChanging, …
	ReserveOn      string    `json:"reserve_on"` // OnOrder or OnPayment (payment.go)
	ReserveFrom    int64     `json:"-"`          // first epoch in which ReserveOn applies
	CreatedAt      time.Time `gorm:"autoCreateTime:false" json:"-"`
	UpdatedAt      time.Time `gorm:"autoUpdateTime:false" json:"-"` // last change by an operator; each change increases it
}

// The values of Sale.ReserveOn.
const (
	OnOrder   = "order"
	OnPayment = "payment"
)

// TableName returns the name of the table, for gorm.
func (Sale) TableName() string { return "sales" }

// Terms returns the terms that the gate checks.
func (s *Sale) Terms() inventory.Terms {
	return inventory.Terms{Total: s.Total, UnitsPerBuyer: s.UnitsPerBuyer, OpensAt: s.OpensAt, ClosesAt: s.ClosesAt}
}

// State returns the state that the API shows: scheduled, open, sold_out or closed.
func (s *Sale) State(now time.Time, available int64) string {
	switch {
	case !now.Before(s.ClosesAt):
		return "closed"
	case now.Before(s.OpensAt):
		return "scheduled"
	case available <= 0:
		return "sold_out"
	}
	return "open"
}

// An Offer is a sale with the number of available units.
type Offer struct {
	Sale
	Available    int64
	QueuedOrders int64     // orders that the gate has accepted and that are not rows yet
	Now          time.Time // the database's time
}

// MarshalJSON encodes the offer in the form of openapi.yaml.
func (o Offer) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		SaleJSON
		Available int64  `json:"available"`
		State     string `json:"state"`
	}{o.JSON(), max(o.Available, 0), o.State(o.Now, o.Available)})
}

// SaleJSON contains the terms of a sale in the form of openapi.yaml.
type SaleJSON struct {
	*Sale
	Version  string `json:"version"`
	OpensAt  stamp  `json:"opens_at"`
	ClosesAt stamp  `json:"closes_at"`
}

// JSON returns the terms of the sale in the form of the API.
func (s *Sale) JSON() SaleJSON {
	return SaleJSON{s, s.Version(), stamp(s.OpensAt), stamp(s.ClosesAt)}
}

// Limits of a sale's numbers. They are far beyond any shop, and a total times a price fits
// into an int64.
const (
	MaxTotal  = 1_000_000_000
	maxPrice  = 1_000_000_000
	maxWindow = 30 * 24 * 60 * 60
)

// Validate returns an *InvalidError with every invalid field, or nil.
func (s *Sale) Validate() error {
	var f Fields
	f.Check(IsSKU(s.SKU), "sku", "must be 1 to 64 characters of A-Z a-z 0-9 . _ -")
	f.Check(s.SKU != "." && s.SKU != "..", "sku", "must not be . or .., which paths do without")
	f.Check(utf8.RuneCountInString(s.Name) <= 200 && strings.ContainsFunc(s.Name, isVisible), "name",
		"must be 1 to 200 characters long, at least one of them visible")
	f.Check(utf8.RuneCountInString(s.Description) <= 500, "description", "must be at most 500 characters long")
	f.Check(s.ImageURL == "" || isImageURL(s.ImageURL), "image_url",
		"must be an https URL without a user, or a path that begins with one /, of at most 500 visible ASCII characters without \\")
	f.Check(s.Price >= 0 && s.Price <= maxPrice, "price", "must be 0 to %d minor units", maxPrice)
	f.checkCurrency(s.Currency)
	f.Check(s.Total >= 0 && s.Total <= MaxTotal, "total", "must be 0 to %d units", MaxTotal)
	f.Check(s.UnitsPerBuyer >= 1 && s.UnitsPerBuyer <= MaxTotal, "per_buyer_limit", "must be 1 to %d units", MaxTotal)
	f.Check(Storable(s.OpensAt), "opens_at", "must be an RFC 3339 time between the years 1970 and 9000")
	f.Check(Storable(s.ClosesAt), "closes_at", "must be an RFC 3339 time between the years 1970 and 9000")
	f.Check(s.ClosesAt.After(s.OpensAt), "closes_at", "must be after opens_at")
	f.Check(s.PaymentWindowS >= 1 && s.PaymentWindowS <= maxWindow, "payment_window_s", "must be 1 to %d seconds", maxWindow)
	f.Check(s.ReserveOn == OnOrder || s.ReserveOn == OnPayment, "reserve_on", "must be order or payment")
	return f.Err()
}

func (f *Fields) checkCurrency(s string) {
	f.Check(len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "", "currency", "must be three capital letters, as in ISO 4217")
}

// isVisible reports whether a reader sees r: a letter, digit, punctuation mark or symbol. The
// fillers of Hangul and the empty Braille pattern are letters and symbols, but show nothing.
func isVisible(r rune) bool {
	return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && r != '\u2800'
}

// isImageURL reports whether a page may load an image from s. It rejects backslashes and a
// leading //, because browsers treat \ as / and would load the image from another host. It rejects
// credentials, because every visitor of the page could read them.
func isImageURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || !VisibleASCII(s, 500) || strings.Contains(s, `\`) || u.User != nil {
		return false
	}
	return u.Scheme == "https" && u.Hostname() != "" || s[0] == '/' && !strings.HasPrefix(s, "//")
}

// Version returns the version of the sale. It changes with every change by an operator, and does
// not change when units are sold.
func (s *Sale) Version() string { return strconv.FormatInt(s.UpdatedAt.UnixMilli(), 36) }

// A Precondition reports whether an operator may change a sale, which is nil if it does not exist.
type Precondition func(*Sale) bool

// IfMatch is the Precondition that one of the values of If-Match is * or the sale's version in
// quotes.
func IfMatch(values ...string) Precondition {
	return func(s *Sale) bool {
		return s != nil && slices.ContainsFunc(strings.Split(strings.Join(values, ","), ","), func(tag string) bool {
			tag = strings.TrimSpace(tag)
			return tag == "*" || tag == `"`+s.Version()+`"`
		})
	}
}

// IfNew is the Precondition that the sale does not exist.
func IfNew(s *Sale) bool { return s == nil }

// Storable reports whether MySQL and SQLite can both store t.
func Storable(t time.Time) bool {
	return t.Unix() >= 0 && t.UTC().Year() < 9000
}

// HasGate reports whether the sale is sold through its gate.
func (s *Sale) HasGate() bool { return s.Mode == ModeGate || s.Mode == ModeChanging }

// TakesOnPayment reports whether orders take no units until they are paid. After a change to
// OnPayment it returns true only from the sale's next epoch on, because the old gate does not
// know the keys of orders without units and could refuse their replays.
func (s *Sale) TakesOnPayment() bool { return s.ReserveOn == OnPayment && s.Epoch >= s.ReserveFrom }

// TookOnPayment reports whether the sale took units on payment in the given epoch. A change of
// ReserveOn applies from ReserveFrom on, so earlier epochs had the other value.
func (s *Sale) TookOnPayment(epoch int64) bool {
	return (s.ReserveOn == OnPayment) == (epoch >= s.ReserveFrom)
}

// Announce sets ModeChanging if the sale has a gate or is over. It does nothing in direct
// mode and before the first gate, because no node then relies on refusals of a gate.
func (s *Sale) Announce() {
	if s.Mode == ModeOver || s.Mode == ModeGate && s.Epoch > 0 {
		s.Mode = ModeChanging
	}
}

// LastExpiry returns the time at which the last unpaid order of the sale expires.
func (s *Sale) LastExpiry() time.Time {
	return s.ClosesAt.Add(time.Duration(s.PaymentWindowS) * time.Second)
}

// SoldDirect reports whether the sale is sold in direct mode.
func (o *Offer) SoldDirect() bool { return o.Mode == ModeDirect }

// The values of Sale.Mode.
//
// ModeChanging announces a new epoch: the gate will be rebuilt, or direct mode entered. The
// gate continues to sell, but a node checks each of its refusals in the database. The process
// that issues the new epoch first waits until every node has read the announcement
// (store.CatalogLease). Only the new epoch ends ModeChanging.
const (
	ModeGate     = "gate"     // sold through the gate of the sale's epoch
	ModeChanging = "changing" // sold through that gate until the next epoch is issued
	ModeDirect   = "direct"   // sold without a gate, because Redis is unavailable
	ModeOver     = "over"     // not sold: the sale has ended and its data in Redis is deleted
	ModeArchived = "archived" // not sold: the sale is being moved to an archive
)
