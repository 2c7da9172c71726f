// Package client makes the HTTP calls of a load test. A Client orders, pays and cancels for
// buyers; an Operator opens a sale and reads its audit and its stored orders; a
// Consumer reads the feed of changes.
package client
