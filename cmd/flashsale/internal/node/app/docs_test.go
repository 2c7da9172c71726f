package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/getkin/kin-openapi/openapi3"

	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// startDemo starts a node of a demo, and waits until the node has created its sale.
func startDemo(t *testing.T) *node {
	t.Helper()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.Demo, c.Changes = true, true })
	check.Eventually(t, "the demo has a sale", func() bool { return n.send("GET", "/v1/sales/"+demoSKU, "", "").known().status == 200 })
	return n
}

// Each request of openapi.yaml is accepted with its example.
func TestExamplesCanBeSent(t *testing.T) {
	t.Parallel()
	n := startDemo(t)
	doc, err := openapi3.NewLoader().LoadFromData(web.OpenAPI)
	check.Must(t, err)
	body := func(op *openapi3.Operation) string {
		if op.RequestBody == nil {
			return ""
		}
		text, err := json.Marshal(op.RequestBody.Value.Content["application/json"].Example)
		check.Must(t, err)
		return string(text)
	}
	sent := 0
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		item := doc.Paths.Value(path)
		for method, op := range item.Operations() {
			if path == "/v1/live" || path == "/demo/crowd" { // does not end, or orders in parallel to the test
				continue
			}
			sent++
			sku, id, buyer := demoSKU, "", fmt.Sprint("buyer-", sent)
			if op.OperationID == "closeSale" {
				sku = "closed"
			}
			n.send("PUT", "/v1/admin/sales/"+sku, n.token("op", true), body(doc.Paths.Value("/v1/admin/sales/{sku}").Put)).ok()
			if strings.Contains(path, "{id}") {
				id = n.sold(sku, buyer).id()
			}
			token := ""
			if op.Security != nil {
				_, operator := (*op.Security)[0]["operator"]
				token = n.token(buyer, operator)
			}
			url, header := strings.NewReplacer("{sku}", sku, "{id}", id, "{file}", "docs.css").Replace(path), []string(nil)
			for _, p := range op.Parameters {
				switch example := p.Value.Schema.Value.Example; {
				case p.Value.In == "query" && p.Value.Required:
					url += fmt.Sprint("?", p.Value.Name, "=", example)
				case p.Value.In == "header" && example != nil:
					header = append(header, fmt.Sprint(p.Value.Name, ": ", example))
				}
			}
			if a := n.send(method, url, token, body(op), header...).ok(); op.OperationID == "placeOrder" {
				n.send(method, url, token, body(op), "Idempotency-Key: first-order").replays(a)
			}
		}
	}
	if sent < 25 {
		t.Errorf("openapi.yaml: got %d requests, want 25 or more", sent)
	}
}

// The page of /docs places an order with its examples and the token of a demo, also behind a path
// prefix. It is accessible, fits the screen, and sends no request to another host.
func TestDocsInTheBrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	for _, as := range screens {
		t.Run(fmt.Sprint(as.width), func(t *testing.T) {
			n := startDemo(t)
			n.put(demoSKU, 5, 2, 900).ok()
			node, err := url.Parse(n.URL())
			check.Must(t, err)
			proxy := httptest.NewServer(http.StripPrefix("/shop", httputil.NewSingleHostReverseProxy(node)))
			t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
			tab := visit(t, chromium, "about:blank")
			tab.do(chromedp.EmulateViewport(as.width, as.height))
			tab.in(as.scheme)
			tab.do(chromedp.Navigate(proxy.URL + "/shop/docs"))
			tab.until(hasText("tokens", "This server is a demo. Requests are sent with"))
			const order = "#operations-orders-placeOrder "
			tab.click(order + ".opblock-summary-control")
			// Swagger UI ignores clicks until it has read the form. A second order replays the first.
			tab.until(`((op, answer) => {
				if (!answer && !op.querySelector('.loading-container')) op.querySelector('.execute')?.click();
				return answer?.innerText.includes('pending_payment');
			})(document.querySelector('` + order + `'), document.querySelector('` + order + `.live-responses-table'))`)
			tab.until(`/shop.v1.orders[^]*Idempotency-Key: first-order/.test(document.querySelector('` + order + `.curl').textContent)`)
			tab.until(`[...document.querySelectorAll('h3')].some(h => h.textContent.includes('Order some units'))`)
			tab.until(`document.documentElement.classList.contains('dark-mode') === ` + fmt.Sprint(as.scheme == "dark"))
			tab.until(`performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin + '/shop/') || e.name.startsWith('data:'))`)
			if wide := eval[int](tab, `document.documentElement.scrollWidth`); int64(wide) > as.width {
				t.Errorf("page of the API: got a width of %d pixels, want at most %d", wide, as.width)
			}
			tab.accessible("an order was placed")
			n.audited(demoSKU, `"sold":1`)
		})
	}
}
