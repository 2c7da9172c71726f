package gallery

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"flashsale/cmd/flashsale/internal/gallery/shops"
	"flashsale/cmd/flashsale/internal/link"
)

// patience is for what must come about by itself.
const patience = 30 * time.Second

// A stage is a variant on empty stores, with a network in between that can be
// spoilt. Buyers come by a link, too: its address stays when the variant dies
// and another life of it takes over.
type stage struct {
	variant  shops.Variant
	redisURL string
	dsn      string
	db       *sql.DB // to look on, not by a link

	sku string // of the act that is on

	entrance     *link.Link
	redis, mysql *link.Link // of the present life; mysql is nil with SQLite
	now          *life
	past         []*life
}

// openStage makes tables and starts the first life.
func openStage(ctx context.Context, v shops.Variant, redisURL, dsn string) (_ *stage, err error) {
	s := &stage{variant: v, redisURL: redisURL, dsn: dsn}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	onlooker, err := shops.Connect(redisURL, dsn)
	if err != nil {
		return nil, err
	}
	if s.db = onlooker.DB; v.Name != ours {
		err = shops.Migrate(ctx, s.db)
	}
	if err = errors.Join(err, onlooker.Redis.Close()); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}

// start begins a life, with links of its own.
func (s *stage) start(ctx context.Context) error {
	u, err := url.Parse(s.redisURL)
	if err != nil {
		return err
	}
	if s.redis, err = link.Open(u.Host); err != nil {
		return err
	}
	dsn := s.dsn
	if !strings.HasPrefix(dsn, "sqlite:") {
		c, err := mysql.ParseDSN(dsn)
		if err != nil {
			return err
		}
		if s.mysql, err = link.Open(c.Addr); err != nil {
			return err
		}
		dsn = strings.Replace(dsn, c.Addr, s.mysql.Addr(), 1)
	}
	if s.now, err = live(ctx, s.variant, strings.Replace(s.redisURL, u.Host, s.redis.Addr(), 1), dsn); err != nil {
		return err
	}
	if s.entrance == nil {
		s.entrance, err = link.Open(s.now.addr)
		return err
	}
	return s.entrance.Lead(s.now.addr)
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
	for _, l := range []*link.Link{s.redis, s.mysql} {
		if l != nil {
			l.Cut()
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
		s.entrance.Cut()
	}
	s.cut()
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// count reads how many orders are stored, and how many of them are cancelled.
// The real service's table answers the same.
func (s *stage) count(ctx context.Context) (stored, cancelled int) {
	var n sql.NullInt64
	_ = s.db.QueryRowContext(ctx, "SELECT COUNT(*), SUM(CASE status WHEN 'cancelled' THEN 1 ELSE 0 END) FROM orders WHERE sku = ?", s.sku).Scan(&stored, &n)
	return stored, int(n.Int64)
}

// poll asks until the answer is yes or ctx ends.
func poll(ctx context.Context, what string, yes func(ctx context.Context) bool) error {
	for !yes(ctx) {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
