package orders

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"flashsale/inventory"
)

// A Sale is what is sold, how much of it, when and to whom.
type Sale struct {
	SKU            string    `gorm:"column:sku;primaryKey" json:"sku"`
	Name           string    `json:"name"`
	Description    string    `json:"description,omitempty"`
	ImageURL       string    `json:"image_url,omitempty"` // https, or a path on this server
	Price          int64     `json:"price"`               // minor units of Currency
	Currency       string    `json:"currency"`
	Total          int64     `json:"total"`           // units
	Sold           int64     `json:"-"`               // units in pending_payment and paid orders, never above Total
	PerBuyerLimit  int64     `json:"per_buyer_limit"` // units
	OpensAt        time.Time `json:"-"`
	ClosesAt       time.Time `json:"-"`
	PaymentWindowS int64     `gorm:"column:payment_window_s" json:"payment_window_s"`
	Fence          int64     `json:"-"`          // fence of the latest keeper
	Keeper         string    `json:"-"`          // node of the latest keeper
	Epoch          int64     `json:"-"`          // epoch of the latest gate
	Mode           string    `json:"-"`          // how units are sold: ModeGate, ModeChanging …
	ReserveOn      string    `json:"reserve_on"` // when units are taken: OnOrder, or OnPayment (late.go)
	ReserveFrom    int64     `json:"-"`          // the epoch from which ReserveOn applies
	CreatedAt      time.Time `gorm:"autoCreateTime:false" json:"-"`
	UpdatedAt      time.Time `gorm:"autoUpdateTime:false" json:"-"` // by an operator; no two changes have the same
}

// When a sale takes units.
const (
	OnOrder   = "order"
	OnPayment = "payment"
)

// TableName is for gorm.
func (Sale) TableName() string { return "sales" }

// Terms are what the gate must know of the sale.
func (s *Sale) Terms() inventory.Terms {
	return inventory.Terms{Total: s.Total, PerBuyer: s.PerBuyerLimit, OpensAt: s.OpensAt, ClosesAt: s.ClosesAt}
}

// State is what a visitor sees: scheduled, open, sold_out or closed.
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

// Offer is a sale with what is left of it now.
type Offer struct {
	Sale
	Available int64
	Queued    int64     // orders that the gate has let in and the database does not have yet
	Now       time.Time // by the database's clock
}

// MarshalJSON writes the offer as openapi.yaml says.
func (o Offer) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		*Sale
		Available int64  `json:"available"`
		OpensAt   stamp  `json:"opens_at"`
		ClosesAt  stamp  `json:"closes_at"`
		State     string `json:"state"`
	}{&o.Sale, max(o.Available, 0), stamp(o.OpensAt), stamp(o.ClosesAt), o.State(o.Now, o.Available)})
}

// The bounds of a sale's numbers: far beyond any shop, and their products stay
// within 63 bits.
const (
	MaxTotal  = 1_000_000_000
	maxPrice  = 1_000_000_000
	maxWindow = 30 * 24 * 60 * 60
)

// Validate names every field that is wrong.
func (s *Sale) Validate() error {
	var f Fields
	f.Check(IsSKU(s.SKU), "sku", "must be 1 to 64 characters of A-Z a-z 0-9 . _ -")
	f.Check(s.SKU != "." && s.SKU != "..", "sku", "must not be . or .., which paths do without")
	length := utf8.RuneCountInString(s.Name)
	f.Check(length >= 1 && length <= 200, "name", "must be 1 to 200 characters long")
	f.Check(utf8.RuneCountInString(s.Description) <= 500, "description", "must be at most 500 characters long")
	f.Check(s.ImageURL == "" || isImageURL(s.ImageURL), "image_url",
		"must be an https URL, or a path that begins with one /, of at most 500 visible ASCII characters without \\")
	f.Check(s.Price >= 0 && s.Price <= maxPrice, "price", "must be 0 to %d minor units", maxPrice)
	f.Check(len(s.Currency) == 3 && strings.Trim(s.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "", "currency", "must be three capital letters, as in ISO 4217")
	f.Check(s.Total >= 0 && s.Total <= MaxTotal, "total", "must be 0 to %d units", MaxTotal)
	f.Check(s.PerBuyerLimit >= 1 && s.PerBuyerLimit <= MaxTotal, "per_buyer_limit", "must be 1 to %d units", MaxTotal)
	f.Check(Storable(s.OpensAt), "opens_at", "must be an RFC 3339 time between the years 1970 and 9000")
	f.Check(Storable(s.ClosesAt), "closes_at", "must be an RFC 3339 time between the years 1970 and 9000")
	f.Check(s.ClosesAt.After(s.OpensAt), "closes_at", "must be after opens_at")
	f.Check(s.PaymentWindowS >= 1 && s.PaymentWindowS <= maxWindow, "payment_window_s", "must be 1 to %d seconds", maxWindow)
	f.Check(s.ReserveOn == OnOrder || s.ReserveOn == OnPayment, "reserve_on", "must be order or payment")
	return f.Err()
}

// isImageURL tells whether a page may load an image from s. Browsers read \ as /, and
// two of those as the beginning of a host.
func isImageURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || !VisibleASCII(s, 500) || strings.Contains(s, `\`) {
		return false
	}
	return u.Scheme == "https" && u.Hostname() != "" || s[0] == '/' && !strings.HasPrefix(s, "//")
}

// ETag names what operators have made of the sale. It is another one after each
// change of theirs, and the same however much is sold.
func (s *Sale) ETag() string {
	return `"` + strconv.FormatInt(s.UpdatedAt.UnixMilli(), 36) + `"`
}

// Matches reports whether one of the values of If-Match names the sale. A proxy that
// compresses answers makes W/"x" of an ETag "x", so that counts too.
func (s *Sale) Matches(ifMatch []string) bool {
	for tag := range strings.SplitSeq(strings.Join(ifMatch, ","), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == "*" || tag == s.ETag() {
			return true
		}
	}
	return false
}

// Storable reports whether both stores can keep t.
func Storable(t time.Time) bool {
	return t.Unix() >= 0 && t.UTC().Year() < 9000
}

// HasGate reports whether the sale is sold through its gate.
func (s *Sale) HasGate() bool { return s.Mode == ModeGate || s.Mode == ModeChanging }

// TakesOnPayment reports whether orders take no units until they are paid. After a change
// to OnPayment it returns true once the sale has its next epoch. The old gate does not
// know orders without units, and could refuse their replays.
func (s *Sale) TakesOnPayment() bool { return s.ReserveOn == OnPayment && s.Epoch >= s.ReserveFrom }

// TookOnPayment reports whether orders that the gate of that epoch accepted should have
// taken no units. An epoch before ReserveFrom has the other kind of ReserveOn, because a
// change applies only when the gate is replaced.
func (s *Sale) TookOnPayment(epoch int64) bool {
	return (s.ReserveOn == OnPayment) == (epoch >= s.ReserveFrom)
}

// Announce sets ModeChanging if the sale has a gate whose refusals a node may rely on, or
// if the sale is over. In direct mode, and before the first gate, it does nothing.
func (s *Sale) Announce() {
	if s.Mode == ModeOver || s.Mode == ModeGate && s.Epoch > 0 {
		s.Mode = ModeChanging
	}
}

// LastOrder is when the last order of a sale expires.
func (s *Sale) LastOrder() time.Time {
	return s.ClosesAt.Add(time.Duration(s.PaymentWindowS) * time.Second)
}

// SoldDirect reports whether the sale is sold in direct mode.
func (o *Offer) SoldDirect() bool { return o.Mode == ModeDirect }

// How a sale is sold: sales.mode.
//
// ModeChanging announces a new epoch: the gate will be rebuilt, or direct mode entered.
// The gate continues to sell, but a node relies on its refusals only after a look into
// the database. The process that issues the new epoch waits first until every node has
// learned of the announcement (store.CatalogLease). Only the new epoch ends ModeChanging.
const (
	ModeGate     = "gate"     // sold through the gate of the sale's epoch
	ModeChanging = "changing" // sold through that gate, until another epoch is issued
	ModeDirect   = "direct"   // sold without a gate, while Redis is away (controller/direct.go)
	ModeOver     = "over"     // not sold: the sale has ended and Redis has forgotten it (keeper/inspect.go)
	ModeArchived = "archived" // not sold: the sale is being moved to an archive (archive.go)
)
