package adapter_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest"
	"flashsale/loadtest/adapter"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

// complete is a shop in memory that lacks nothing but a feed.
type complete struct {
	mu          sync.Mutex
	left, limit int
	orders      []*judge.Row
	refs        map[string]string // id → payment reference
}

func (s *complete) About() adapter.About { return adapter.About{Name: "complete"} }

func (s *complete) Open(_ context.Context, _ string, units int, _ int64, _ string) error {
	s.left, s.refs = units, map[string]string{}
	return nil
}

func (s *complete) Limit(_ context.Context, _ string, n int) error {
	s.limit = n
	return nil
}

func (s *complete) Order(_ context.Context, _, buyer, key string, units int) (adapter.Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := 0
	for _, o := range s.orders {
		if o.Buyer == buyer && o.Key == key {
			return adapter.Order{ID: o.ID, Status: o.Status, Replayed: true}, nil
		}
		if o.Buyer == buyer && o.Status != judge.Cancelled {
			held += o.Quantity
		}
	}
	switch {
	case held+units > s.limit:
		return adapter.Order{}, adapter.ErrLimit
	case s.left < units:
		return adapter.Order{}, adapter.ErrSoldOut
	}
	s.left -= units
	id := fmt.Sprint("order/", len(s.orders)) // an id with a slash, and not in the order of text
	s.orders = append(s.orders, &judge.Row{Order: judge.Order{ID: id, Buyer: buyer, Quantity: units, Status: judge.Pending}, Key: key})
	return adapter.Order{ID: id}, nil
}

// close gives a pending order another status.
func (s *complete) close(id, status, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		switch {
		case o.ID != id || o.Status == status && s.refs[id] == ref:
		case o.Status == judge.Paid:
			return adapter.ErrPaid
		case o.Status == judge.Cancelled:
			return adapter.ErrClosed
		default:
			if o.Status, s.refs[id] = status, ref; status == judge.Cancelled {
				s.left += o.Quantity
			}
		}
	}
	return nil
}

func (s *complete) Pay(_ context.Context, _, id, ref string) error {
	return s.close(id, judge.Paid, ref)
}
func (s *complete) Cancel(_ context.Context, _, id string) error {
	return s.close(id, judge.Cancelled, "")
}

func (s *complete) Left(context.Context, string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left, nil
}

func (s *complete) Rows(context.Context, string) (rows []judge.Row, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		rows = append(rows, *o)
	}
	return rows, nil
}

// A shop with all optional methods passes. Only the three lines of the feed are not judged.
func TestComplete(t *testing.T) {
	v, err := attack(check.Context(t), &complete{}, 8, func(c *loadtest.Config) {
		c.SecondOrders, c.Replays, c.Duration = 0.2, 0.2, 2*time.Second
	})
	check.Must(t, err)
	var text strings.Builder
	check.Must(t, v.WriteText(&text))
	if v.ExitCode() != judge.ExitPass || strings.Count(text.String(), "  ok") != 10 {
		t.Errorf("verdict: got %s, want PASS on 10 lines\n%s", outcome(v), &text)
	}
}
