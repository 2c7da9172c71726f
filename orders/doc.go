// Package orders contains the rules of a flash sale: the types of sales, orders and refund
// claims, the statuses of an order, and Ledger.Decide, which decides whether a queued order
// is sold. It does no I/O.
//
// The packages form layers. Each package may import only packages to its right:
//
//	httpapi → shop → controller → keeper → store → orders → inventory
//
// A transaction that locks a row of sales and rows of orders locks the row of sales first.
// Otherwise two transactions could deadlock.
package orders
