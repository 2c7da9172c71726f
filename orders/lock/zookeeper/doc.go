// Package zookeeper takes locks in ZooKeeper by its own recipe: whoever wants a
// lock creates an ephemeral node with a number of the server's, the lowest
// number holds it, and each one watches the one before it alone, so that a
// release wakes one waiter and not all of them.
//
// The nodes end with the session, and the session with its timeout, which is the
// lease here. A renewal asks after the lock's node: that keeps the session, and
// notices a node that somebody has removed. Context and outcomes are package
// lock's.
//
// What a ZooKeeper lock has that others have not is a fencing token for free:
// the transaction in which its node was made (see Fence).
package zookeeper
