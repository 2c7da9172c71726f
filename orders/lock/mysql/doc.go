// Package mysql takes locks with MySQL's (or MariaDB's) GET_LOCK, for programs
// that have no Redis, and issues fencing tokens in the database that they guard.
//
// A lock of the server belongs to one connection and ends with it, so each lock
// here has a connection to itself, and a lease like any other: the server closes
// a connection that is silent for one lease (wait_timeout), and renewing it is a
// question sent on that connection. Context and outcomes are package lock's.
//
// What it can't do: a connection that breaks frees the lock at once, and its
// holder hears of that at the next renewal only. Where that matters, and not only
// after a pause as with other stores, the fence is what keeps the late one out.
//
// The server knows names, not tables: a lock is the whole server's, whatever the
// database. In a cluster (Galera, group replication) it is one node's alone.
package mysql
