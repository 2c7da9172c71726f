// Package compare contains benchmarks that compare this project's lock and limiter with other
// libraries, on a private redis-server:
//
//	cd orders/lock/compare && go test -run - -bench .
//
// It is a separate module, so that the other libraries are not dependencies of the project.
package compare
