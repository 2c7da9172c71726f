// Package api is the API as an operator's commands use it.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrNotFound is the answer for what the server does not have.
var ErrNotFound = errors.New("api: not found")

// A Client asks one server.
type Client struct {
	Target string // URL, such as http://localhost:8080
	Token  string // bearer; "" for public calls
}

// New returns a client of target, which must be the URL of a server.
func New(target, token string) (*Client, error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("target: %q is no URL such as http://localhost:8080", target)
	}
	return &Client{Target: strings.TrimSuffix(target, "/"), Token: token}, nil
}

// most of an answer that is read, bytes.
const most = 4 << 20

// timeout of one call: longer than the server waits for anything.
const timeout = 30 * time.Second

// call makes one request and decodes its answer. It returns what the server's
// clock said.
func (c *Client) call(ctx context.Context, method, path string, body, into any) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var send io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return time.Time{}, err
		}
		send = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Target+path, send)
	if err != nil {
		return time.Time{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return time.Time{}, fmt.Errorf("read the answer of %s: %w", c.Target, err)
	}
	at, _ := http.ParseTime(res.Header.Get("Date"))
	if res.StatusCode/100 != 2 {
		return at, failure(res, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return at, fmt.Errorf("%s does not answer as a flashsale server does: %w", c.Target, err)
	}
	return at, nil
}

// failure is what the server says that is wrong, in its own words.
func failure(res *http.Response, raw []byte) error {
	var p struct {
		Code, Detail string
		Errors       []struct{ Field, Detail string }
	}
	if json.Unmarshal(raw, &p) != nil || p.Code == "" {
		return fmt.Errorf("%s answers %s", res.Request.URL, res.Status)
	}
	says := p.Code + ": " + p.Detail
	for _, e := range p.Errors {
		says += " " + e.Field + " " + e.Detail + "."
	}
	if res.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %s", ErrNotFound, says)
	}
	return errors.New(says)
}
