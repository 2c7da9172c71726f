// Package shop sells: Place, Pay, Cancel, PutSale, Audit, Run. A program imports this
// package.
//
// The way of one order: Place (place.go) asks the gate of package inventory (gateway.go),
// which takes the units and queues the order. The SKU's keeper, on whichever node, makes it
// durable (package keeper) and sends a notice. The caller waits for that notice
// (replay.go, waiters.go).
//
// A refusal of an order leaves the shop through one function, which returns ErrUnavailable
// instead if the refusal may not be final (replay.go).
package shop
