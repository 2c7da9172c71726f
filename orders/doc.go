// Package orders is the domain of a flash sale: sales, orders and refunds, their
// statuses, and Ledger.Decide, which decides what may be sold. It does no I/O.
//
// The packages below form layers, and each may call what stands right of it:
//
//	httpapi → shop → controller → keeper → store → orders → inventory
//
// Order of locks, everywhere: the row in sales first, then rows in orders.
package orders
