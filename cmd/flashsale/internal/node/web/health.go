package web

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// A Check asks one dependency whether it is there.
type Check struct {
	Name string
	Ask  func(context.Context) error
	// Spared, where set, tells whether the node sells without it just now.
	Spared func() bool
}

// checkTimeout bounds each question of /readyz, and checkAge how old an answer may
// be: so often is each dependency asked, whoever asks.
const (
	checkTimeout = time.Second
	checkAge     = 100 * time.Millisecond
)

// readyz is 200 while this node can sell, "degraded" where something is missing
// that it sells without, else 503 with what is missing.
func (s *Server) readyz(c *gin.Context) {
	if !s.ready.Load() {
		s.away(c, "this node is starting or stopping")
		return
	}
	missing, err := s.missing.Get(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	if len(missing) == 0 {
		c.JSON(http.StatusOK, gin.H{"status": "ok"})
		return
	}
	what, spared := "", true
	for _, check := range missing {
		what += check.Name + " does not answer; "
		spared = spared && check.Spared != nil && check.Spared()
	}
	what = what[:len(what)-2]
	if spared {
		c.JSON(http.StatusOK, gin.H{"status": "degraded", "detail": what})
		return
	}
	s.away(c, what)
}

// ask asks all dependencies at once, and returns those that do not answer.
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

// mustBeReady refuses work while the node starts or stops.
func (s *Server) mustBeReady(c *gin.Context) {
	if !s.ready.Load() {
		s.fail(c, errNotReady)
	}
}
