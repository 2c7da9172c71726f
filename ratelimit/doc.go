// Package ratelimit is a token bucket in Redis, shared by every node of a service: it
// asks Redis whether a request may pass, and hands on the answer.
//
//   - Package limit says what is allowed: 5/s:10 is 5 tokens a second, at most 10 at once.
//   - Package admission says what becomes of the request: it passes or is refused,
//     also while Redis is away.
//   - Packages httplimit and ginlimit are the middleware for net/http and for Gin.
//
// A request may have to pass several buckets (its buyer's, its address's, its
// SKU's): one script call asks them all, and takes from all or from none.
// Callers that ask at the same moment share one call, so a request costs Redis less
// the more of them there are. A refusal is remembered, and given again from memory
// until the tokens are due. Every decision is made on Redis's own clock in whole
// microseconds; no node's clock takes part.
//
// A token bucket is also a leaky bucket. As a meter it is Allow seen from the other
// side: what has been taken leaks out. As a queue that shapes traffic it is Wait. It
// is also GCRA, which keeps one moment where this keeps two numbers. Both decide
// alike (same_test.go) until the clock goes back: then GCRA can't tell a clock that
// was ahead from tokens that were taken.
//
// Reading order: limit/limit.go (what is allowed), bucket.go (to whom), result.go (the
// answer), limiter.go (asking), refusals.go (not asking), queue.go (asking together),
// script.go and take.lua (the decision), wait.go (waiting for one's turn), slots.go (the
// same on a Redis Cluster), then admission and httplimit. The folder antipatterns shows
// what each part guards against.
//
// It needs Redis 5 or later (scripts that read TIME and then write).
package ratelimit
