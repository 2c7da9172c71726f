// Package zookeeper implements locks in ZooKeeper by ZooKeeper's own recipe. Each caller
// creates an ephemeral node, which the server numbers. The lowest number holds the lock.
// Each waiter watches only the node before its own, so a release wakes one waiter.
//
// The server deletes the nodes when the session ends, and ends the session after its
// timeout, which is the lease. A renewal checks that the lock's node exists: this keeps the
// session alive, and detects a node that was deleted. Contexts and errors are as in package
// lock.
//
// The locks are not reentrant: a second acquisition of a key by the same Client waits for the
// first one's release. Recipes that are reentrant, such as Curator's InterProcessMutex, count
// the acquisitions of a thread in the client, not in ZooKeeper.
//
// Fencing tokens come from ZooKeeper itself: see Fence.
package zookeeper
