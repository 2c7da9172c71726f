package gallery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// crowd is how many buyers take part in a measurement.
const crowd = 10_000

// maxPerS is more than any variant sells in a second: the sale must not sell out
// while it is measured.
const maxPerS = 20_000

// measure lets callers order one unit after the other from a sale that does not
// sell out, each as soon as it has its last answer. Rows count as orders; where
// units are taken on payment, paid rows.
func measure(ctx context.Context, cfg Config, v variants.Variant, redisURL, dsn string, row *Row) (err error) {
	l, err := live(ctx, v, redisURL, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	m := measurement{cfg: cfg, onPayment: v.OnPayment, tokens: make([]string, crowd), conns: client.NewHTTP(cfg.Callers, lab.Patience)}
	defer m.conns.CloseIdleConnections()
	for i := range m.tokens {
		if m.tokens[i], err = token(fmt.Sprintf("buyer-%05d", i), false); err != nil {
			return err
		}
	}
	admin, err := token("operator", true)
	if err != nil {
		return err
	}
	m.operator = client.NewOperator(client.New("http://"+l.addr, "gallery", m.conns), admin)
	if err := m.open(ctx); err != nil {
		return err
	}
	// Warm up: open connections, verify tokens.
	if _, _, err := m.rush(ctx, "warm", time.Second/2); err != nil {
		return err
	}
	before, err := m.rest(ctx)
	if err != nil {
		return err
	}
	took, metrics, err := m.rush(ctx, "rush", m.cfg.Speed)
	if err != nil {
		return err
	}
	after, err := m.rest(ctx)
	if err != nil {
		return err
	}
	// A refusal is no order, and nor is a 202.
	yes := metrics.StatusCodes["201"]
	if m.onPayment {
		yes = metrics.StatusCodes["200"]
	}
	if rows := after - before; rows < yes {
		return fmt.Errorf("%d orders were accepted, and %d are stored", yes, rows)
	}
	row.DurablePerS, row.P99MS = float64(yes)/took.Seconds(), report.Milliseconds(metrics.Latencies.P99)
	return nil
}

type measurement struct {
	cfg      Config
	conns    *http.Client
	operator client.Operator
	tokens   []string

	onPayment bool // an order counts when it is paid, and is paid at once
}

// rush orders for the time of d.
func (m measurement) rush(ctx context.Context, name string, d time.Duration) (time.Duration, *vegeta.Metrics, error) {
	conns := *m.conns
	if m.onPayment {
		conns.Transport = andPay{conns.Transport}
	}
	attacker := vegeta.NewAttacker(
		vegeta.Client(&conns),
		vegeta.Workers(uint64(m.cfg.Callers)), vegeta.MaxWorkers(uint64(m.cfg.Callers)), vegeta.MaxBody(0),
	)
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()
	var number atomic.Int64
	target := func(t *vegeta.Target) error {
		n := number.Add(1)
		m.operator.Target(t, client.Buyer{Token: m.tokens[n%crowd]}, fmt.Sprintf("%s-%d", name, n), 1)
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

// andPay pays each order. The answer is that to the payment.
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

// open opens a sale that does not sell out, without a limit per buyer.
func (m measurement) open(ctx context.Context) error {
	total := int64(maxPerS * (m.cfg.Speed + time.Second).Seconds())
	sale := client.Sale{Name: "Gallery", Price: 1990, Currency: "EUR", Total: total, PerBuyerLimit: total, PaymentWindowS: 86400}
	if m.onPayment {
		sale.ReserveOn = judge.OnPayment
	}
	return m.operator.Open(ctx, sale)
}

// rest waits until the sale is at rest, and returns how many units are sold.
func (m measurement) rest(ctx context.Context) (stored int, err error) {
	last := -1
	err = lab.Until(ctx, 5*time.Millisecond, "the sale is at rest", func(ctx context.Context) (bool, error) {
		audit, err := m.operator.Audit(ctx)
		if err != nil {
			return false, nil // asked again
		}
		still := audit.Held == 0 && audit.Sold == last
		last = audit.Sold
		return still, nil
	})
	return last, err
}
