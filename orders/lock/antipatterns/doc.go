// Package antipatterns shows distributed locks that people use and that break, each
// with the few steps that break it, and the same steps on ours.
//
//	go test -run Antipattern -v ./orders/lock/antipatterns
//
// tells the story. Nothing here depends on luck: a step happens when its line is
// reached, and time passes when a line says so.
//
// An antipattern is one file:
//
//	expire_after     two commands to take a lock, a crash between them
//	getset           a timestamp as the lock's value
//	blind_delete     a release that doesn't look whose lock it is
//	watch_release    a release by WATCH and MULTI
//	short_lease      a lease that ends before the work does
//	failover         a replica that has not heard of the lock, nor of its fence
//	wait             WAIT, and a failover to the other replica
//	clock_jump       Redlock, and one clock of five
//	redlock_pause    Redlock, and a holder that stops for a while
//	lost_reply       a lock that takes itself for somebody else's
//	dead_context     cleaning up with a context that has ended
package antipatterns
