package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// A Check describes a dependency of the node.
type Check struct {
	Name string
	Ask  func(context.Context) error // returns nil if the dependency responds
	// SellsWithout reports whether the node currently sells without the dependency. It may be nil.
	SellsWithout func() bool
}

// checkTimeout is the timeout of a check. Results are reused for checkAge, which bounds
// the rate of checks whatever the rate of requests to /readyz.
const (
	checkTimeout = time.Second
	checkAge     = 100 * time.Millisecond
)

// readyz answers 503 with the missing dependencies if the node cannot sell, 200 "degraded" with
// what is wrong if it sells anyway, and 200 "ok" otherwise.
func (s *Server) readyz(c *gin.Context) {
	if !s.ready.Load() {
		s.serviceUnavailable(c, "this node is starting or stopping")
		return
	}
	missing, err := s.missing.Get(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	var wrong []string
	if len(missing) == 0 { // Degraded asks the dependencies, too
		wrong = s.cfg.Degraded(c.Request.Context())
	}
	spared := true
	for _, check := range missing {
		wrong = append(wrong, check.Name+" does not answer")
		spared = spared && check.SellsWithout != nil && check.SellsWithout()
	}
	what := strings.Join(wrong, "; ")
	switch {
	case what == "":
		c.JSON(http.StatusOK, gin.H{"status": "ok"})
	case spared:
		c.JSON(http.StatusOK, gin.H{"status": "degraded", "detail": what})
	default:
		s.serviceUnavailable(c, what)
	}
}

// ask checks all dependencies in parallel and returns the ones that do not respond.
func (s *Server) ask(ctx context.Context) ([]Check, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answers := make([]chan error, len(s.cfg.Checks))
	for i, check := range s.cfg.Checks {
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- check.Ask(ctx) }()
	}
	var missing []Check
	for i, check := range s.cfg.Checks {
		select {
		case err := <-answers[i]:
			if err != nil {
				missing = append(missing, check)
			}
		case <-ctx.Done():
			missing = append(missing, check)
		}
	}
	return missing, nil
}

// mustBeStarted answers 503 while the node starts.
func (s *Server) mustBeStarted(c *gin.Context) {
	if !s.started.Load() {
		s.fail(c, errNotStarted)
	}
}
