package drill

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// The gap is that between two yeses, before the first or after the last, as
// long as there is something to sell.
func TestLongestGap(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(seconds ...float64) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, start.Add(time.Duration(s*float64(time.Second))))
		}
		return all
	}
	for name, c := range map[string]struct {
		yeses   []float64
		soldOut float64 // 0: never
		want    float64
	}{
		"in the middle":       {[]float64{1, 2, 5, 9}, 0, 4},
		"before the first":    {[]float64{6, 8}, 0, 6},
		"after the last":      {[]float64{1, 2, 3}, 0, 7},
		"none at all":         {nil, 0, 10},
		"sold out is no gap":  {[]float64{1, 2, 3}, 3.5, 1},
		"late yeses are late": {[]float64{1, 15}, 0, 9},
		"none before the end": {[]float64{4, 5}, 2, 2},
	} {
		s := seen{first: start, yeses: at(c.yeses...)}
		if c.soldOut > 0 {
			s.soldOut = at(c.soldOut)[0]
		}
		if got := s.longestGap(10 * time.Second).Seconds(); got != c.want {
			t.Errorf("%s: %vs, want %vs", name, got, c.want)
		}
	}
}

// A replay of a yes, a 202 and a look at an order are no news; what the buyer
// reads is whole.
func TestRecordCountsNewYeses(t *testing.T) {
	answers := []struct {
		status         int
		location, body string
	}{
		{202, "/v1/orders/b?sku=S&key=K", "{}"},
		{201, "/v1/orders/a", "{}"},
		{201, "/v1/orders/a?sku=S", "{}"},
		{409, "", `{"code":"buyer_limit"}`},
		{201, "/v1/orders/b", "{}"},
		{409, "", `{"code":"sold_out"}`},
	}
	next := 0
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answers[next]
		next++
		w.Header().Set("Location", a.location)
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	defer node.Close()
	b := balanced(t, node.URL)
	for i, a := range answers {
		select {
		case <-b.began:
			if i == 0 {
				t.Error("began before the first order")
			}
		default:
		}
		status, body := post(t, b.URL())
		if status != a.status || body != a.body {
			t.Errorf("%d %q, want %d %q", status, body, a.status, a.body)
		}
		if s := b.seen(); s.soldOut.IsZero() != (i < len(answers)-1) {
			t.Errorf("after answer %d sold out at %v", i, s.soldOut)
		}
	}
	if s := b.seen(); len(s.yeses) != 2 || s.first.IsZero() || s.yeses[0].Before(s.first) {
		t.Errorf("%d yeses, want 2: %+v", len(s.yeses), s)
	}
}
