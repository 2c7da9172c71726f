package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"strings"

	"flashsale/loadtest/adapter"
)

// documents contains the operations of each API. The only field that is decoded is named
// "result".
//
//go:embed *.graphql
var documents embed.FS

// values are the variables of an operation.
type values map[string]any

// session is a caller of one API. With Vendure's default settings, a cookie identifies it.
type session struct {
	url, document string
	http          http.Client
}

// newSession returns a session of the API "admin-api" or "shop-api".
func newSession(url, api string) *session {
	jar, _ := cookiejar.New(nil)                        // returns no error
	document, _ := documents.ReadFile(api + ".graphql") // exists for both APIs
	return &session{url + "/" + api, string(document), http.Client{Jar: jar}}
}

// call executes an operation and decodes its result into out, unless out is nil. It returns
// adapter.ErrSoldOut if Vendure refuses the operation because of its stock.
func (s *session) call(ctx context.Context, operation string, variables values, out any) error {
	body, _ := json.Marshal(values{"query": s.document, "operationName": operation, "variables": variables}) // cannot fail
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct {
		Data   struct{ Result json.RawMessage }
		Errors []struct{ Message string }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return fmt.Errorf("vendure: %s: %s: %w", operation, res.Status, err)
	}
	if len(answer.Errors) > 0 {
		return fmt.Errorf("vendure: %s: %s", operation, answer.Errors[0].Message)
	}
	var refused struct{ ErrorCode, Message string }
	_ = json.Unmarshal(answer.Data.Result, &refused) // fails for a list, which is no refusal
	if strings.Contains(refused.Message, "due to insufficient stock") {
		return adapter.ErrSoldOut
	} else if refused.ErrorCode != "" {
		return fmt.Errorf("vendure: %s: %s: %s", operation, refused.ErrorCode, refused.Message)
	} else if out == nil {
		return nil
	}
	return json.Unmarshal(answer.Data.Result, out)
}
