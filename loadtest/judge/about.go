package judge

import (
	"fmt"
	"slices"
	"strings"
)

// About describes a shop that other people wrote, as it or its adapter answers
// GET /v1/about.
type About struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Settings string    `json:"settings"` // settings that the result depends on, such as the database
	Lacks    []Feature `json:"lacks"`    // features that the shop does not have, which are then not judged
	Emulates []Feature `json:"emulates"` // features that the adapter adds, so that they say nothing about the shop
}

// String returns name, version and settings. A nil *About is this project's service.
func (a *About) String() string {
	if a == nil {
		return "this project's service"
	}
	text := strings.TrimSpace(a.Name + " " + a.Version)
	if a.Settings != "" {
		text += ", " + a.Settings
	}
	return text
}

// Feature is a part of the contract that a shop may lack.
type Feature string

// The features that a shop may lack.
const (
	Keys        Feature = "keys"          // a repeated idempotency key returns the same order
	Limit       Feature = "limit"         // a buyer's units are limited
	Auditing    Feature = "audit"         // an operator can read an audit
	Counter     Feature = "counter"       // the available units of the audit are a stock level, and not the total minus the orders
	Cancelling  Feature = "cancel"        // an order can be cancelled
	Paying      Feature = "pay"           // an order is paid by a call of its own
	CancelOrPay Feature = "cancel-or-pay" // either a cancellation or a payment of an order takes effect
	ChangeFeed  Feature = "feed"          // there is a feed of changes
)

// Features returns all features that a shop may lack.
func Features() []Feature {
	return []Feature{Keys, Limit, Auditing, Counter, Cancelling, Paying, CancelOrPay, ChangeFeed}
}

// ParseFeatures returns the features with the given names, each of them once.
func ParseFeatures[S ~string](names ...S) (list []Feature, err error) {
	for _, name := range names {
		f := Feature(name)
		if !slices.Contains(Features(), f) {
			return nil, fmt.Errorf("unknown feature %q, want one of %s", name, JoinFeatures(Features()))
		}
		if !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list, nil
}

// JoinFeatures returns a list such as "keys, limit".
func JoinFeatures(list []Feature) string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// lacks reports whether the shop does not have the feature.
func (e *Evidence) lacks(f Feature) bool { return slices.Contains(e.Lacks, f) }

// needs lists the features without which a check does not apply. Oversold, Lost and
// Unannounced apply to every shop.
var needs = []struct {
	check   string
	feature Feature
}{
	{Duplicates, Keys}, {OverLimit, Limit}, {Drift, Auditing}, {Unsettled, Auditing},
	{Untold, ChangeFeed}, {Backwards, ChangeFeed}, {Invented, ChangeFeed},
}

// inapplicable returns the checks that do not apply to the shop.
func (e *Evidence) inapplicable() (checks []string) {
	for _, n := range needs {
		if e.lacks(n.feature) {
			checks = append(checks, n.check)
		}
	}
	return checks
}

// AuditOf returns the audit of a sale whose shop has none: the units that are not sold
// count as available.
func AuditOf(sku string, total int, reserveOn string, rows []Row) Audit {
	a := Audit{SKU: sku, Total: total}
	for _, row := range rows {
		switch {
		case row.Status == Paid:
			a.Paid += row.Quantity
		case row.Status == Pending && reserveOn != OnPayment:
			a.Pending += row.Quantity
		}
	}
	a.Sold = a.Paid + a.Pending
	a.Available, a.Oversold = total-a.Sold, max(0, a.Sold-total)
	a.Balanced = a.Oversold == 0
	return a
}

// withKeys returns the rows with the keys that they lack, because a shop without keys may
// not store them. A row without a key gets the key of the request that was answered with the
// row's id. If there is none, it gets a key of its buyer that was not answered with an order.
// Keys whose outcome is unknown come first.
func (c *Index) withKeys(rows []Row) []Row {
	open := map[string][]*Outcome{}
	for _, doubted := range []bool{true, false} {
		for _, o := range c.Outcomes {
			if o.Announced == nil && o.Inconclusive == doubted {
				open[o.Buyer] = append(open[o.Buyer], o)
			}
		}
	}
	rows = slices.Clone(rows)
	for i := range rows {
		row := &rows[i]
		if row.Key != "" {
			continue
		}
		if o := c.Ordered[row.ID]; o != nil {
			row.Key = o.Key
		} else if list := open[row.Buyer]; len(list) > 0 {
			n := max(0, slices.IndexFunc(list, func(o *Outcome) bool { return o.Quantity == row.Quantity && o.refused == (row.Status == Rejected) }))
			row.Key = list[n].Key
			open[row.Buyer] = slices.Delete(list, n, n+1)
		}
	}
	return rows
}
