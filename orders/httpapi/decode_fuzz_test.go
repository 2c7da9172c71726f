package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"flashsale/orders/httpapi"
)

// encoding/json accepts every body that Decode accepts, and decodes the same values.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"sku":"S","quantity":1}`, ` { "sku" : "\"}\\" , "quantity":-1 }`, `{"sku":["S"],"quantity":{}}`, `{"":null}`, `{"sku":"ſ","SKU":"S"}`, `{}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		c, _ := gin.CreateTestContext(httptest.NewRecorder())
		c.Request = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		var sku string
		var quantity int64
		wrong, err := httpapi.Decode(c, map[string]any{"sku": &sku, "quantity": &quantity})
		if err != nil || wrong.Err() != nil {
			return
		}
		var same map[string]any
		if err := json.Unmarshal([]byte(body), &same); err != nil || len(same) != 2 || same["sku"] != sku || same["quantity"] != float64(quantity) {
			t.Fatalf("Decode %q: got %q and %d, encoding/json %v, error %v, want the same values", body, sku, quantity, same, err)
		}
	})
}
