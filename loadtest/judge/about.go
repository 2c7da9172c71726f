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
	Settings string    `json:"settings"` // what the result depends on, such as the database
	Lacks    []Feature `json:"lacks"`    // features that the shop does not have, which are then not judged
	Emulates []Feature `json:"emulates"` // features that the adapter adds, so that they say nothing about the shop
}

// Feature is a part of the contract that a shop may lack.
type Feature string

// The features that a shop may lack.
const (
	Keys        Feature = "keys"          // a repeated idempotency key returns the same order
	Limit       Feature = "limit"         // a buyer's units are limited
	Auditing    Feature = "audit"         // an operator can read an audit
	Counter     Feature = "counter"       // the audit's available units are a count of their own, not total minus sold
	Cancelling  Feature = "cancel"        // an order can be cancelled
	Paying      Feature = "pay"           // an order is paid by a call of its own
	CancelOrPay Feature = "cancel-or-pay" // of a cancellation and a payment of one order, only one takes effect
	ChangeFeed  Feature = "feed"          // there is a feed of changes
)

// Features returns all features that a shop may lack.
func Features() []Feature {
	return []Feature{Keys, Limit, Auditing, Counter, Cancelling, Paying, CancelOrPay, ChangeFeed}
}

// ParseFeatures returns the features with the given names, each of them once.
func ParseFeatures(names ...string) (list []Feature, err error) {
	for _, name := range names {
		f := Feature(name)
		if !slices.Contains(Features(), f) {
			return nil, fmt.Errorf("judge: unknown feature %q, want one of %s", name, JoinFeatures(Features()))
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
