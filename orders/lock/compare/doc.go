// Compare measures this project's primitives side by side with the libraries that
// people use, in one run against one private redis-server:
//
//	cd orders/lock/compare && go run .
//
// It is a module of its own so that what it compares with is no dependency of
// the project.
package main
