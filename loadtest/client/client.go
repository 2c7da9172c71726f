package client

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

	vegeta "github.com/tsenart/vegeta/v12/lib"
	"golang.org/x/sync/errgroup"

	"flashsale/loadtest/judge"
)

// MaxBody is the maximum number of bytes that are read of one answer. The largest answer is
// the list of all sales.
const MaxBody = 4 << 20

// Buyer is a caller with a name, a token and an IP address. The address is sent as a header.
// If the server trusts this machine as a proxy, its limit per address applies to each buyer
// instead of the load test as a whole.
type Buyer struct{ Subject, Token, IP string }

// Address returns the n-th address of 10.0.0.0/8, beginning with 10.0.0.1.
func Address(n int) string {
	n++
	return fmt.Sprintf("10.%d.%d.%d", n>>16&0xff, n>>8&0xff, n&0xff)
}

// sign adds the buyer's identity to a request.
func (b Buyer) sign(h http.Header) {
	if b.Token != "" { // public calls need no token
		h.Set("Authorization", "Bearer "+b.Token)
	}
	if b.IP != "" {
		h.Set("X-Forwarded-For", b.IP)
	}
}

// Client calls one server about one sale. Most methods return an Answer instead of an error,
// because the judge needs to know every outcome.
type Client struct {
	base string // without a trailing slash
	sku  string
	http *http.Client
}

var http1 = func() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}()

// NewHTTP returns an HTTP client with at most conns connections to each server, or any number
// if conns is 0. The caller closes idle connections when it has finished.
//
// If a reused connection turns out to be closed, net/http may send a POST with an
// Idempotency-Key twice. The contract allows that, but the first answer that the caller
// receives may then be a replay.
func NewHTTP(conns int, timeout time.Duration) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			MaxConnsPerHost:     conns,
			MaxIdleConns:        conns,
			MaxIdleConnsPerHost: conns,
			IdleConnTimeout:     30 * time.Second,
			Protocols:           http1, // HTTP/2 would send many calls over one connection
		},
		Timeout: timeout,
		// The contract has no redirects, so a redirect is returned as the answer.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// New returns a Client for the sale of sku at the server with the base URL target.
func New(target, sku string, conns *http.Client) Client {
	return Client{base: strings.TrimSuffix(target, "/"), sku: sku, http: conns}
}

const ordersPath = "/v1/orders"

// orderBody returns the body of an order. The alphabet of SKUs needs no escaping.
func orderBody(sku string, quantity int) []byte {
	return fmt.Appendf(nil, `{"sku":%q,"quantity":%d}`, sku, quantity)
}

// do sends one request as b and reads the whole answer. It adds the header name unless value is
// empty.
func (c *Client) do(ctx context.Context, method, path string, b Buyer, name, value string, body []byte) (int, http.Header, []byte, error) {
	// net/http can send a bytes.Reader again if a connection breaks.
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	b.sign(req.Header)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if value != "" {
		req.Header.Set(name, value)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(io.LimitReader(res.Body, MaxBody))
	if err != nil {
		return 0, nil, nil, err // an incomplete answer counts as no answer
	}
	return res.StatusCode, res.Header, got, nil
}

// ask sends one request as b, and returns the time before it was sent, the latency and the answer.
// The latency is measured from that time, so that a busy machine cannot make a call end too early.
func (c *Client) ask(ctx context.Context, method, path string, b Buyer, key string, body []byte) (time.Time, time.Duration, judge.Answer) {
	sent := time.Now()
	status, header, got, _ := c.do(ctx, method, path, b, "Idempotency-Key", key, body)
	return sent, time.Since(sent), Decode(status, header, got)
}

// OneAddress reports whether the server ignores the addresses of buyers. It reads the sale with
// the given number of requests from different addresses, for at most five seconds, and returns
// true if one of them is answered with 429.
func (c *Client) OneAddress(ctx context.Context, requests int) bool {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	asking, ctx := errgroup.WithContext(ctx) // the first 429 ends all requests
	asking.SetLimit(16)
	for n := range requests {
		asking.Go(func() error {
			if status, _, _, _ := c.do(ctx, http.MethodGet, "/v1/sales/"+c.sku, Buyer{IP: Address(n)}, "", "", nil); status == http.StatusTooManyRequests {
				return context.Canceled
			}
			return nil
		})
	}
	return asking.Wait() != nil
}

// Target sets out to an order of quantity units under key.
func (c *Client) Target(out *vegeta.Target, b Buyer, key string, quantity int) {
	out.Method, out.URL, out.Body = http.MethodPost, c.base+ordersPath, orderBody(c.sku, quantity)
	out.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	b.sign(out.Header)
}

// Order orders quantity units under key.
func (c Client) Order(ctx context.Context, kind judge.Kind, b Buyer, key string, quantity int) judge.Request {
	r := judge.Request{Kind: kind, Buyer: b.Subject, Key: key, Quantity: quantity}
	r.Sent, r.Latency, r.Answer = c.ask(ctx, http.MethodPost, ordersPath, b, key, orderBody(c.sku, quantity))
	return r
}

// Lookup reads the order at the Location of a 202.
func (c *Client) Lookup(ctx context.Context, b Buyer, of judge.Request) judge.Request {
	r := judge.Request{Kind: judge.Lookup, Buyer: of.Buyer, Key: of.Key, Quantity: of.Quantity}
	path, err := c.local(of.Location)
	if err != nil {
		r.Fault = err.Error()
		return r
	}
	r.Sent, r.Latency, r.Answer = c.ask(ctx, http.MethodGet, path, b, "", nil)
	return r
}

// local converts a Location into a path on the server. It returns an error for other hosts,
// which must not receive a buyer's token.
func (c *Client) local(location string) (string, error) {
	base, err := url.Parse(c.base + "/")
	if err != nil {
		return "", err
	}
	to, err := base.Parse(location)
	if err != nil || location == "" {
		return "", fmt.Errorf("follow Location %q: it is not a valid URL", location)
	}
	if to.Host != base.Host || to.Scheme != base.Scheme {
		return "", fmt.Errorf("follow Location %q: it names another host", location)
	}
	return strings.TrimPrefix(to.String(), c.base), nil
}

// Close cancels an order, or pays it with the payment reference ref.
func (c *Client) Close(ctx context.Context, b Buyer, id string, cancel bool, ref string) judge.Closing {
	r := judge.Closing{Cancel: cancel, OrderID: id, Buyer: b.Subject}
	var body []byte
	if !cancel {
		body = fmt.Appendf(nil, `{"payment_ref":%q}`, ref)
	}
	r.Sent, r.Latency, r.Answer = c.ask(ctx, http.MethodPost, ordersPath+"/"+url.PathEscape(id)+"/"+r.Verb(), b, "", body)
	return r
}

// Decode decodes an answer to a buyer. Answer.Fault describes how the form of the answer violates
// the contract. The judge compares the answer with other answers.
func Decode(status int, h http.Header, body []byte) judge.Answer {
	a := judge.Answer{Status: status}
	if status == 0 {
		return a
	}
	a.Replayed = h.Get("Idempotent-Replayed") == "true"
	a.Location = h.Get("Location")
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err == nil {
		a.RetryAfter = time.Duration(seconds) * time.Second
	}
	// Record only the first fault, because further faults often follow from it.
	fault := func(broken bool, what string) {
		if broken && a.Fault == "" {
			a.Fault = what
		}
	}
	if status < 300 {
		var o judge.Order
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
		kind, _, _ := strings.Cut(h.Get("Content-Type"), ";") // without the charset
		fault(strings.TrimSpace(kind) != "application/problem+json", "not application/problem+json")
		fault(err != nil || p.Code == "", "no problem code")
		fault((status == 429 || status == 503) && a.RetryAfter < time.Second, "no Retry-After of a second or more")
	}
	fault(h.Get("X-Request-Id") == "", "no X-Request-Id")
	return a
}
