package gallery

import (
	"context"
	"database/sql"
	"errors"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest/servers/wire"
)

// A stage is a variant on empty stores, with a network in between that can be
// spoilt. Buyers come by a wire, too: its address stays when the variant dies
// and another life of it takes over.
type stage struct {
	variant  variants.Variant
	redisURL string
	dsn      string
	look     variants.Stores // not by a wire

	sku string // of the act that is on

	entrance     *wire.Wire
	redis, mysql *wire.Wire // of the present life; mysql is nil with SQLite
	now          *life
	past         []*life
}

// openStage starts the first life.
func openStage(ctx context.Context, v variants.Variant, redisURL, dsn string) (*stage, error) {
	look, err := variants.Connect(redisURL, dsn)
	if err != nil {
		return nil, err
	}
	s := &stage{variant: v, redisURL: redisURL, dsn: dsn, look: look}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// start begins a life, with wires of its own.
func (s *stage) start(ctx context.Context) (err error) {
	redisURL, dsn := s.redisURL, s.dsn
	if redisURL, s.redis, err = wire.Before(redisURL); err != nil {
		return err
	}
	if !s.look.SQLite {
		if dsn, s.mysql, err = wire.Before(dsn); err != nil {
			return err
		}
	}
	if s.now, err = live(ctx, s.variant, redisURL, dsn); err != nil {
		return err
	}
	if s.entrance == nil {
		s.entrance, err = wire.Open(s.now.addr)
		return err
	}
	s.entrance.Lead(s.now.addr)
	return nil
}

// kill ends a life as a kill -9 does: all its connections are gone at once, and
// whatever it does from now on reaches nobody.
func (s *stage) kill() {
	s.entrance.Cut()
	s.cut()
	s.now.end()
	s.past, s.now = append(s.past, s.now), nil
}

func (s *stage) cut() {
	for _, w := range []*wire.Wire{s.redis, s.mysql} {
		if w != nil {
			_ = w.Close()
		}
	}
}

// close ends everything that was started.
func (s *stage) close() error {
	var errs []error
	if s.now != nil {
		errs = append(errs, s.now.close())
	}
	for _, l := range s.past {
		_ = l.close() // it died: what it says of that is no news
	}
	if s.entrance != nil {
		_ = s.entrance.Close()
	}
	s.cut()
	return errors.Join(append(errs, s.look.Close())...)
}

// count reads how many orders are stored, and how many of them are cancelled.
// The real service's table answers the same.
func (s *stage) count(ctx context.Context) (stored, cancelled int) {
	var n sql.NullInt64
	_ = s.look.DB.QueryRowContext(ctx, "SELECT COUNT(*), SUM(CASE status WHEN 'cancelled' THEN 1 ELSE 0 END) FROM orders WHERE sku = ?", s.sku).Scan(&stored, &n)
	return stored, int(n.Int64)
}
