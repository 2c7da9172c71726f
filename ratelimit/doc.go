// Package ratelimit is a token bucket in Redis that all nodes of a service share. A
// Limiter asks Redis whether a request may pass.
//
//   - Package limit describes limits: 5/s:10 is 5 tokens a second, at most 10 at once.
//   - Package admission applies the answer to a request, also while Redis is down.
//   - Packages httplimit and ginlimit provide the middleware for net/http and Gin.
//
// A request may take from several buckets, such as those of its buyer, its address and
// its SKU. One script call takes from all of them or from none. Callers that ask at the
// same moment share a call, so the cost per request falls with the load. Refusals are
// repeated from memory until tokens are due. Every decision uses Redis's clock in whole
// microseconds, and no node's clock.
//
// A token bucket is also a leaky bucket: Allow is the leaky bucket as a meter, and Wait
// is the leaky bucket as a queue. It is also GCRA, which stores one time instead of two
// numbers. The two decide alike (same_test.go) until the clock goes back. Then GCRA
// cannot distinguish a clock that was ahead from tokens that were taken.
//
// Reading order: limit/limit.go (limits), bucket.go and result.go (questions and
// answers), limiter.go (calls), refusals.go (answers from memory), queue.go (shared
// calls), script.go and take.lua (the decision), wait.go (turns), slots.go (Redis
// Cluster), then admission and httplimit. The folder antipatterns has the faults that
// each part prevents.
//
// The package needs Redis 5 or later, because its script reads TIME and then writes.
package ratelimit
