// Package shop sells: Place, Pay, Cancel, PutSale, Audit, Run. It is what a program
// imports.
//
// The way of one order: Place (place.go) asks the gate of package inventory, which
// takes the units and queues the order. The SKU's keeper, on whichever node, makes it
// durable (package keeper) and sends a notice. The caller waits for that notice
// (waiters.go).
//
// A refusal of an order leaves the shop by one function, which returns an error in its
// place if the refusal may not be final (replay.go).
package shop
