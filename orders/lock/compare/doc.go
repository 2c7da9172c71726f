// Package compare has benchmarks of this project's lock and limiter beside the
// libraries that people use, against one private redis-server:
//
//	cd orders/lock/compare && go test -run - -bench .
//
// It is a module of its own so that what it compares with is no dependency of
// the project.
package compare
