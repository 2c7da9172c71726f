// Package ratelimit is a token bucket in Redis, shared by every node of a
// service, and a middleware for net/http in front of it; package ginlimit has that
// for Gin.
//
// A request may have to pass several buckets (its buyer's, its address's, its
// SKU's): one script call asks them all and takes from all or from none.
// Callers that ask at the same moment share one call, so the limiter costs
// less the busier it is, and what was refused is refused again from memory
// until its time. Every decision is made on Redis's own clock in integer
// microseconds; no node's clock takes part.
//
// The same bucket is a leaky bucket: as a meter it is Allow seen from the other
// side (what has been taken leaks out), as a queue that shapes it is Wait. It
// is also GCRA, which keeps one moment where this keeps two numbers: they
// decide alike (same_test.go) until the clock goes back, where GCRA can't tell
// a clock that was ahead from tokens that were taken.
//
// Reading order: limit.go (what is allowed), bucket.go (to whom), limiter.go
// (asking), refusals.go (not asking), queue.go (asking together), take.lua (the
// decision), slots.go (the same on a Redis Cluster), rules.go and local.go
// (when Redis is away), wait.go (waiting for one's turn), middleware.go and
// headers.go (HTTP). The folder antipatterns shows what each part guards
// against.
//
// It needs Redis 5 or later (scripts that read TIME and then write).
package ratelimit
