// Package mysql implements locks with GET_LOCK of MySQL or MariaDB, for programs without
// Redis, and issues fencing tokens in the database.
//
// A server lock belongs to one connection and ends with it, so each lock has its own
// connection. The lease is the connection's wait_timeout: the server closes a connection
// that is silent for one lease. A renewal sends a query on that connection. Contexts and
// errors are as in package lock.
//
// If the connection breaks, the server frees the lock at once, but the holder detects the
// loss only at the next renewal. Two holders are then possible without any pause, so writes
// under the lock need a fencing token: see Fence.
//
// A lock applies to the whole server, whatever the database. In a cluster (Galera, group
// replication) it applies to one node only.
package mysql
