package judge

import (
	"strings"
	"testing"
	"time"
)

// A run in which no order was accepted proves nothing, whatever the shop lacks.
func TestNoOrderWasAccepted(t *testing.T) {
	t.Parallel()
	e := Evidence{SKU: "S", Total: 2, UnitsPerBuyer: 2, Lacks: Features(), SoldOut: true}
	for _, answer := range []Answer{{Status: 503, Code: "unavailable"}, {Status: 409, Code: "sold_out"}} {
		e.Requests = append(e.Requests, Request{Kind: First, Attack: true, Buyer: "buyer-" + answer.Code, Key: "k", Quantity: 1, Sent: time.Now(), Answer: answer})
	}
	v := Judge(e)
	if v.ExitCode() == ExitPass || len(v.Unexercised) == 0 || v.Unexercised[0].Checks[0] != "acceptance" {
		t.Errorf("no accepted order: got exit code %d and %v, want that no order was accepted", v.ExitCode(), v.Unexercised)
	}
}

// Rows without keys belong to the orders with their ids, and then to orders of their buyers whose
// outcome is unknown. A row that is left contradicts the refusal of its buyer.
func TestRowsWithoutKeys(t *testing.T) {
	t.Parallel()
	e := Evidence{SKU: "S", Total: 9, UnitsPerBuyer: 9, Lacks: []Feature{Keys}, Audit: Audit{Total: 9}}
	order := func(key string, status int, id string) {
		a := Answer{Status: status}
		switch status {
		case 201:
			a.Order, a.Location = &Order{ID: id, SKU: "S", Buyer: "ann", Quantity: 1, Status: Pending}, "/"
		case 409:
			a.Code = "sold_out"
		}
		e.Requests = append(e.Requests, Request{Kind: First, Attack: true, Buyer: "ann", Key: key, Quantity: 1, Sent: time.Now(), Answer: a})
	}
	order("refused", 409, "")
	order("lost answer", 0, "")
	order("accepted", 201, "1")
	for _, id := range []string{"2", "1"} {
		e.Rows = append(e.Rows, Row{Order: Order{ID: id, SKU: "S", Buyer: "ann", Quantity: 1, Status: Pending}})
	}
	if v := Judge(e); v.Unannounced != 0 || v.Lost != 0 {
		t.Errorf("two rows of an accepted and an unknown order: got %d unannounced and %d lost, want none: %v", v.Unannounced, v.Lost, v.Violations)
	}
	e.Rows = append(e.Rows, Row{Order: Order{ID: "3", SKU: "S", Buyer: "ann", Quantity: 1, Status: Pending}})
	v := Judge(e)
	if v.Unannounced != 1 || !strings.Contains(v.Violations[0].Detail+v.Violations[len(v.Violations)-1].Detail, "was refused with 409 sold_out") {
		t.Errorf("a row of a refused order: got %d unannounced, want 1: %v", v.Unannounced, v.Violations)
	}
}
