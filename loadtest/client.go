package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds what is read of one answer, in bytes. A page of orders is
// the largest.
const maxBody = 1 << 20

// client speaks the contract for the phases around the attack. Its methods
// never fail for what the server says: that is in the Answer.
type client struct {
	base string // without a trailing slash
	sku  string
	http *http.Client
}

// transport allows conns connections to the target. They are the run's own,
// so that it can close every one of them at its end.
//
// It sends a request again by itself when a reused connection turns out to be
// closed: to net/http, a POST with an Idempotency-Key is repeatable. That is
// the contract's own promise, but it means that the first answer a client
// sees may already call itself a replay.
func transport(conns int) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxConnsPerHost:     conns,
		MaxIdleConns:        conns,
		MaxIdleConnsPerHost: conns,
		IdleConnTimeout:     30 * time.Second,
	}
}

// noRedirects hands a redirect to the caller: the contract has none.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// orderBody is the body of POST /v1/orders. The SKU's alphabet needs no
// escaping.
func orderBody(sku string, quantity int) []byte {
	return fmt.Appendf(nil, `{"sku":%q,"quantity":%d}`, sku, quantity)
}

// do sends one request as b and reads the whole answer.
func (c *client) do(ctx context.Context, method, path string, b buyer, key string, body []byte) (int, http.Header, []byte, error) {
	// From a bytes.Reader the body can be sent a second time.
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	b.sign(req.Header)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return 0, nil, nil, err // half an answer is none
	}
	return res.StatusCode, res.Header, got, nil
}

// order asks for quantity units under key.
func (c *client) order(ctx context.Context, kind Kind, b buyer, key string, quantity int) Request {
	r := Request{Kind: kind, Buyer: b.subject, Key: key, Quantity: quantity, Sent: time.Now()}
	status, header, body, _ := c.do(ctx, http.MethodPost, "/v1/orders", b, key, orderBody(c.sku, quantity))
	r.Latency, r.Answer = time.Since(r.Sent), decode(status, header, body)
	return r
}

// lookup reads where a 202 pointed to, as it is.
func (c *client) lookup(ctx context.Context, b buyer, of Request) Request {
	r := Request{Kind: Lookup, Buyer: of.Buyer, Key: of.Key, Quantity: of.Quantity, Sent: time.Now()}
	path, err := c.local(of.Location)
	if err != nil {
		r.Fault = err.Error()
		return r
	}
	status, header, body, _ := c.do(ctx, http.MethodGet, path, b, "", nil)
	r.Latency, r.Answer = time.Since(r.Sent), decode(status, header, body)
	return r
}

// local makes a Location a path on the target; a buyer's token goes nowhere
// else.
func (c *client) local(location string) (string, error) {
	base, err := url.Parse(c.base + "/")
	if err != nil {
		return "", err
	}
	to, err := base.Parse(location)
	if err != nil || location == "" {
		return "", fmt.Errorf("a Location that cannot be followed: %q", location)
	}
	if to.Host != base.Host || to.Scheme != base.Scheme {
		return "", fmt.Errorf("a Location on another host: %q", location)
	}
	return strings.TrimPrefix(to.String(), c.base), nil
}

// close cancels an order, or pays it under ref.
func (c *client) close(ctx context.Context, b buyer, id string, cancel bool, ref string) Closing {
	r := Closing{Cancel: cancel, OrderID: id, Buyer: b.subject, Sent: time.Now()}
	var body []byte
	if !cancel {
		body = fmt.Appendf(nil, `{"payment_ref":%q}`, ref)
	}
	status, header, got, _ := c.do(ctx, http.MethodPost, "/v1/orders/"+url.PathEscape(id)+"/"+r.verb(), b, "", body)
	r.Latency, r.Answer = time.Since(r.Sent), decode(status, header, got)
	return r
}

// decode reads an answer to a buyer and notes how it breaks the contract by
// itself; what contradicts other answers is for Judge.
func decode(status int, h http.Header, body []byte) Answer {
	a := Answer{Status: status}
	if status == 0 {
		return a
	}
	a.Replayed = h.Get("Idempotent-Replayed") == "true"
	a.Location = h.Get("Location")
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err == nil {
		a.RetryAfter = time.Duration(seconds) * time.Second
	}
	// The first fault of an answer is enough: the rest often follows from it.
	fault := func(broken bool, what string) {
		if broken && a.Fault == "" {
			a.Fault = what
		}
	}
	if status < 300 {
		var o Order
		err := json.Unmarshal(body, &o)
		fault(err != nil || o.ID == "", "no order in the body")
		if err == nil {
			a.Order = &o
		}
		fault((status == 201 || status == 202) && a.Location == "", "no Location")
	} else {
		var p struct {
			Code string `json:"code"`
		}
		err := json.Unmarshal(body, &p)
		a.Code = p.Code
		kind, _, _ := strings.Cut(h.Get("Content-Type"), ";") // without its charset
		fault(strings.TrimSpace(kind) != "application/problem+json", "not application/problem+json")
		fault(err != nil || p.Code == "", "no problem code")
		fault((status == 429 || status == 503) && a.RetryAfter < time.Second, "no Retry-After of a second or more")
	}
	fault(h.Get("X-Request-Id") == "", "no X-Request-Id")
	return a
}
