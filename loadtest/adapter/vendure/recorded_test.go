package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// exchange is a call of Vendure and its answer.
type exchange struct {
	Document  string         `json:"document"` // hash of the text of all operations of the API
	Operation string         `json:"operation"`
	Variables map[string]any `json:"variables"`
	Session   int            `json:"session"` // numbered in the order of their first calls
	Answer    any            `json:"answer"`
}

// vendure returns the URL of a server that gives the answers that Vendure 3.7.3 gave. The test
// fails unless it makes the recorded calls in the recorded order. If FLASHSALE_TEST_VENDURE
// contains the URL of a Vendure server, its answers replace the recorded ones.
func vendure(t *testing.T) string {
	var calls []exchange
	var sessions []*session
	golden, live, made := "testdata/"+t.Name()+".json", os.Getenv("FLASHSALE_TEST_VENDURE"), 0
	if live == "" {
		file, err := os.ReadFile(golden)
		check.Must(t, err)
		check.Must(t, json.Unmarshal(file, &calls))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		check.OK(t, err)
		var sent struct {
			Query, OperationName string
			Variables            map[string]any
		}
		check.OK(t, json.Unmarshal(body, &sent))
		hash := sha256.Sum256([]byte(sent.Query))
		got := exchange{hex.EncodeToString(hash[:8]), sent.OperationName, sent.Variables, len(sessions), nil}
		if cookie, err := r.Cookie("session"); err == nil {
			got.Session, err = strconv.Atoi(cookie.Value)
			check.OK(t, err)
		} else {
			sessions = append(sessions, newSession(live, strings.Trim(r.URL.Path, "/")))
			http.SetCookie(w, &http.Cookie{Name: "session", Value: strconv.Itoa(got.Session)})
		}
		if live != "" {
			s := sessions[got.Session]
			res, err := s.http.Post(s.url, "application/json", bytes.NewReader(body))
			check.Must(t, err)
			defer res.Body.Close()
			check.OK(t, json.NewDecoder(res.Body).Decode(&got.Answer))
			calls = append(calls, got)
		}
		if made++; made > len(calls) {
			t.Errorf("call %d is %+v, want none", made, got)
			return
		}
		want := calls[made-1]
		got.Answer = want.Answer
		if !reflect.DeepEqual(got, want) {
			t.Errorf("call %d is %+v, want %+v", made, got, want)
		}
		check.OK(t, json.NewEncoder(w).Encode(want.Answer))
	}))
	t.Cleanup(func() {
		server.Close()
		if made < len(calls) {
			t.Errorf("got %d calls, want %d", made, len(calls))
		}
		if live != "" {
			file, err := json.MarshalIndent(calls, "", "  ")
			check.Must(t, err)
			check.Must(t, os.WriteFile(golden, append(file, '\n'), 0o644))
		}
	})
	return server.URL
}
