// Package api is the API as an operator's commands use it.
package api

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"flashsale/loadtest/client"
)

// A Client asks one server.
type Client struct{ server client.Operator }

// timeout of one call: longer than the server waits for anything.
const timeout = 30 * time.Second

// New returns a client of target, which must be the URL of a server such as
// http://localhost:8080. Public calls need no token.
func New(target, token string) (*Client, error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("target: %q is no URL such as http://localhost:8080", target)
	}
	return &Client{client.NewOperator(client.New(target, "", &http.Client{Timeout: timeout}), token)}, nil
}
