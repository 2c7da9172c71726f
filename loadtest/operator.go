package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// ErrSKUInUse is what Run returns when the sale has orders already: they are
// nobody's in this run, and no verdict could be just.
var ErrSKUInUse = errors.New("loadtest: the SKU has orders already")

// operator reads and opens the sale with an admin's token.
type operator struct {
	client
	as buyer
}

// failure is an answer an operator did not want. Unlike a buyer's refusal it
// is no evidence, but the reason why there is none.
type failure struct {
	call   string
	status int
	code   string
}

func (f *failure) Error() string {
	switch f.status {
	case 401, 403:
		return fmt.Sprintf("%s: %d %s (are the tokens signed with the server's secret?)", f.call, f.status, f.code)
	}
	return fmt.Sprintf("%s: %d %s", f.call, f.status, f.code)
}

// statusOf is the status behind err, 0 if the server did not answer.
func statusOf(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.status
	}
	return 0
}

// call sends in and decodes a 2xx into out; either may be nil.
func (o *operator) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	status, header, got, err := o.do(ctx, method, path, o.as, "", body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if status/100 != 2 {
		return &failure{method + " " + path, status, decode(status, header, got).Code}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(got, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// open creates the sale and waits until buyers may order.
func (o *operator) open(ctx context.Context, c Config) error {
	page, err := o.page(ctx, "", 1)
	switch {
	case statusOf(err) == http.StatusNotFound: // a SKU nobody has used
	case err != nil:
		return err
	case len(page.Orders) > 0:
		return fmt.Errorf("%w: %s", ErrSKUInUse, o.sku)
	}
	// An hour early: the server's clock need not be this one.
	now := time.Now().UTC().Truncate(time.Millisecond)
	sale := map[string]any{
		"name": c.Name, "price": c.Price, "currency": c.Currency,
		"total": c.Stock, "per_buyer_limit": c.PerBuyerLimit,
		"opens_at": now.Add(-time.Hour), "closes_at": now.Add(24 * time.Hour),
		"payment_window_s": int(c.PaymentWindow.Seconds()),
	}
	if c.onPayment() {
		sale["reserve_on"] = OnPayment
	}
	err = o.call(ctx, http.MethodPut, "/v1/admin/sales/"+o.sku, sale, nil)
	// 503 means stored, but not yet at the gate: the wait below is for that.
	if err != nil && statusOf(err) != http.StatusServiceUnavailable {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// Attacking earlier would fill the records with not_open, which this
	// verdict takes for a wrong answer.
	for {
		var s struct {
			State string `json:"state"`
		}
		err := o.call(ctx, http.MethodGet, "/v1/sales/"+o.sku, nil, &s)
		if err == nil && s.State == "open" {
			return nil
		}
		if wait(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("loadtest: sale %s did not open (state %q): %w", o.sku, s.State, errors.Join(err, ctx.Err()))
		}
	}
}

// audit reads the sale's conservation law as it is at this moment.
func (o *operator) audit(ctx context.Context) (Audit, error) {
	var a Audit
	err := o.call(ctx, http.MethodGet, "/v1/admin/sales/"+o.sku+"/audit", nil, &a)
	return a, err
}

// pageSize is rows per page, small enough for any server's cap.
const pageSize = 100

type page struct {
	Orders []Row  `json:"orders"`
	Next   string `json:"next_cursor"`
}

func (o *operator) page(ctx context.Context, cursor string, limit int) (page, error) {
	var p page
	q := url.Values{"limit": {fmt.Sprint(limit)}}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	err := o.call(ctx, http.MethodGet, "/v1/admin/sales/"+o.sku+"/orders?"+q.Encode(), nil, &p)
	return p, err
}

// rows reads every stored order of the sale.
func (o *operator) rows(ctx context.Context) ([]Row, error) {
	var all []Row
	cursor := ""
	for {
		p, err := o.page(ctx, cursor, pageSize)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Orders...)
		if p.Next == "" {
			return all, nil
		}
		// A server that pages in circles must not keep us for ever.
		if p.Next == cursor || len(p.Orders) == 0 {
			return nil, fmt.Errorf("loadtest: the list of orders does not advance past cursor %q", cursor)
		}
		cursor = p.Next
	}
}

// wait sleeps for d, or returns why ctx ended before.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
