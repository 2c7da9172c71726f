// Package bare helps tests that work on the two stores of a sale without a running node. A
// test calls each pass of a keeper itself.
package bare
