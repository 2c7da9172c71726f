package gallery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/cmd/flashsale/internal/auth"
	"flashsale/cmd/flashsale/internal/gallery/shops"
)

// speed is what was measured of a variant that nobody does any harm to.
type speed struct {
	durablePerS float64
	p99MS       float64
}

// crowd is how many buyers take part in a measurement.
const crowd = 10_000

// mostPerS is more than any variant sells in a second here: a sale that is to
// be measured must not sell out.
const mostPerS = 20_000

// measure has callers order one unit after the other, each as soon as it has its
// last answer, from a sale that does not sell out. Orders count by their rows;
// where units are taken on payment, those that are paid.
func measure(ctx context.Context, cfg Config, v shops.Variant, redisURL, dsn string) (_ speed, err error) {
	verifier, err := newVerifier()
	if err != nil {
		return speed{}, err
	}
	stores, err := shops.Connect(redisURL, dsn)
	if err != nil {
		return speed{}, err
	}
	if v.Name != ours {
		err = shops.Migrate(ctx, stores.DB)
	}
	if err = errors.Join(err, stores.Close()); err != nil {
		return speed{}, err
	}
	l, err := live(ctx, v, redisURL, dsn)
	if err != nil {
		return speed{}, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	m := measurement{cfg: cfg, base: "http://" + l.addr, verifier: verifier, onPayment: v.OnPayment}
	if m.admin, err = verifier.Sign("operator", true, time.Hour); err != nil {
		return speed{}, err
	}
	return m.run(ctx)
}

type measurement struct {
	cfg      Config
	base     string
	verifier *auth.Verifier
	admin    string

	onPayment bool // an order counts when it is paid, and is paid at once
}

func (m measurement) run(ctx context.Context) (speed, error) {
	tokens := make([]string, crowd)
	for i := range tokens {
		var err error
		if tokens[i], err = m.verifier.Sign(fmt.Sprintf("buyer-%05d", i), false, time.Hour); err != nil {
			return speed{}, err
		}
	}
	if err := m.open(ctx); err != nil {
		return speed{}, err
	}
	// For nothing, so that connections are open and tokens verified.
	if _, _, err := m.rush(ctx, tokens, "warm", time.Second/2); err != nil {
		return speed{}, err
	}
	before, err := m.rest(ctx)
	if err != nil {
		return speed{}, err
	}
	took, metrics, err := m.rush(ctx, tokens, "rush", m.cfg.Speed)
	if err != nil {
		return speed{}, err
	}
	after, err := m.rest(ctx)
	if err != nil {
		return speed{}, err
	}
	// A caller who was sent away, or left with a 202, did not buy.
	yes := metrics.StatusCodes["201"]
	if m.onPayment {
		yes = metrics.StatusCodes["200"]
	}
	if rows := after - before; rows < yes {
		return speed{}, fmt.Errorf("%d orders were accepted, and %d are stored", yes, rows)
	}
	return speed{float64(yes) / took.Seconds(), float64(metrics.Latencies.P99) / float64(time.Millisecond)}, nil
}

// rush orders for as long as d.
func (m measurement) rush(ctx context.Context, tokens []string, name string, d time.Duration) (time.Duration, *vegeta.Metrics, error) {
	conns := &http.Transport{MaxIdleConnsPerHost: m.cfg.Callers, MaxConnsPerHost: m.cfg.Callers}
	defer conns.CloseIdleConnections()
	var transport http.RoundTripper = conns
	if m.onPayment {
		transport = andPay{conns}
	}
	attacker := vegeta.NewAttacker(
		vegeta.Client(&http.Client{Transport: transport, Timeout: patience}),
		vegeta.Workers(uint64(m.cfg.Callers)), vegeta.MaxWorkers(uint64(m.cfg.Callers)), vegeta.MaxBody(0),
	)
	stop := context.AfterFunc(ctx, func() { attacker.Stop() })
	defer stop()
	var number atomic.Int64
	target := func(t *vegeta.Target) error {
		n := number.Add(1)
		t.Method, t.URL, t.Body = http.MethodPost, m.base+"/v1/orders", []byte(`{"sku":"gallery","quantity":1}`)
		t.Header = http.Header{
			"Authorization":   {"Bearer " + tokens[n%crowd]},
			"Content-Type":    {"application/json"},
			"Idempotency-Key": {fmt.Sprintf("%s-%d", name, n)},
		}
		return nil
	}
	metrics := new(vegeta.Metrics)
	began := time.Now()
	for r := range attacker.Attack(target, vegeta.Rate{}, d, name) {
		metrics.Add(r)
	}
	metrics.Close()
	return time.Since(began), metrics, ctx.Err()
}

// andPay pays for what it has ordered. The answer is the payment's.
type andPay struct{ http.RoundTripper }

func (p andPay) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := p.RoundTripper.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusCreated {
		return res, err
	}
	_, _ = io.Copy(io.Discard, res.Body) // or the connection could not be used again
	_ = res.Body.Close()
	where := req.URL.Scheme + "://" + req.URL.Host + res.Header.Get("Location") + "/pay"
	body := fmt.Sprintf(`{"payment_ref":%q}`, req.Header.Get("Idempotency-Key"))
	pay, err := http.NewRequestWithContext(req.Context(), http.MethodPost, where, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	pay.Header = http.Header{"Authorization": req.Header["Authorization"], "Content-Type": req.Header["Content-Type"]}
	return p.RoundTripper.RoundTrip(pay)
}

// open puts up a sale that does not sell out, for buyers who may have it all.
func (m measurement) open(ctx context.Context) error {
	total := int(mostPerS * (m.cfg.Speed + time.Second).Seconds())
	body := fmt.Sprintf(`{"name":"Gallery","price":1990,"currency":"EUR","total":%d,"per_buyer_limit":%d,"opens_at":%q,"closes_at":%q,"payment_window_s":86400}`,
		total, total, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return poll(ctx, "the sale is open", func(ctx context.Context) bool {
		return m.ask(ctx, http.MethodPut, "/v1/admin/sales/gallery", body, nil) == nil
	})
}

// rest waits until nothing is under way, and returns how much is stored.
func (m measurement) rest(ctx context.Context) (stored int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last := -1
	err = poll(ctx, "the sale is at rest", func(ctx context.Context) bool {
		var audit struct{ Held, Sold int }
		if m.ask(ctx, http.MethodGet, "/v1/admin/sales/gallery/audit", "", &audit) != nil {
			return false
		}
		still := audit.Held == 0 && audit.Sold == last
		last = audit.Sold
		return still
	})
	return last, err
}

// ask is one request of the operator's; into may be nil.
func (m measurement) ask(ctx context.Context, method, path, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, m.base+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+m.admin)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(into)
}
