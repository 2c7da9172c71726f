// Package antipatterns shows common distributed locks that break. Each test runs the few steps
// that break the faulty lock, and then the same steps with package lock. To print the steps:
//
//	go test -run Antipattern -v ./orders/lock/antipatterns
//
// The tests are deterministic: each step is a statement of the test, and a lease ends only when
// the test advances a clock.
//
// Each file contains one antipattern:
//
//	expire_after     acquire by two commands, with a crash between them
//	counter          a count as the value of the lock
//	getset           a timestamp as the value of the lock
//	blind_delete     a release that does not check the holder atomically
//	watch_release    a release by WATCH and MULTI
//	short_lease      a lease that ends before the work does
//	failover         a failover to a replica without the lock and its fence
//	wait             WAIT, and a failover to another replica
//	clock_jump       Redlock, and a clock that jumps on one of five masters
//	redlock_pause    Redlock, and a holder that pauses
//	lost_reply       a repeated request that finds its own lock held
//	dead_context     a release with a context that has ended
package antipatterns
