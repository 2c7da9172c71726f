package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Concurrent calls of one client receive their own answers.
func TestConcurrentCalls(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sku := strings.Split(r.URL.Path, "/")[4]
		_, _ = fmt.Fprintf(w, `{"sku":%q,"total":%d,"balanced":true%s}`, sku, len(sku), strings.Repeat(" ", len(sku)))
	}))
	t.Cleanup(server.Close)
	c := New(server.URL, "")
	var all sync.WaitGroup
	for n := range 16 {
		sku := strings.Repeat("S", 1+n)
		all.Go(func() {
			for range 20 {
				if a, err := c.Audit(t.Context(), sku); err != nil || a.SKU != sku || a.Total != int64(len(sku)) {
					t.Errorf("audit of %s: got %+v, error %v, want the audit of that sale", sku, a, err)
				}
			}
		})
	}
	all.Wait()
	if last := c.LastResponse(); !strings.HasPrefix(string(last), `{"sku":"S`) {
		t.Errorf("last answer of the client: got %q, want an audit", last)
	}
}
