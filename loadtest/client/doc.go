// Package client makes the calls of the HTTP contract that a load test needs.
// A Client orders, pays and cancels for buyers; an Operator opens a sale and
// reads its audit and its stored orders.
package client
