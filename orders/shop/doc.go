// Package shop places, pays, cancels and expires orders, and changes sales. A program that
// sells imports this package, creates a Service with New, and calls Run.
//
// The way of one order: Place (place.go) asks the gate of package inventory (gateway.go),
// which takes the units and queues the order. The SKU's keeper, on any node, makes the order
// durable (package keeper) and sends a notice. The caller waits for that notice
// (replay.go, waiters.go).
//
// Every final refusal of a request with a key passes through Service.finalOrUnavailable
// (replay.go), except refusals that rest on a durable row. If a refusal may not be final,
// finalOrUnavailable returns ErrUnavailable instead.
package shop
