package loadtest

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

// twoSales gives c a popular sale and a second one.
func twoSales(c Config) Config {
	c.Sales = []Sale{
		{SKU: "popular", Name: "Popular", Stock: 80, UnitsPerBuyer: 2, Weight: 3},
		{SKU: "other", Name: "Other", Stock: 40, UnitsPerBuyer: 1, Weight: 1},
	}
	return c
}

func TestSalesGetTheirShareOfTheOrders(t *testing.T) {
	c := twoSales(Defaults())
	c.Target = "http://sale.test"
	arriving := newArrivals(c, testCrowd(t, 500))
	var plans []*targets
	for i, s := range c.sales() {
		plans = append(plans, newTargets(c.forSale(s), i, arriving))
	}
	m := newSaleMix(c, plans)
	const n = 4000
	orders := map[string]int{}
	for range n {
		var target vegeta.Target
		check.Must(t, m.target(&target))
		var body struct{ SKU string }
		check.Must(t, json.Unmarshal(target.Body, &body))
		_, sale, _, err := m.numbered(target.URL)
		if err != nil || c.Sales[sale].SKU != body.SKU {
			t.Fatalf("order of %s: got sale %d and error %v", body.SKU, sale, err)
		}
		orders[body.SKU]++
	}
	// The draw comes from the seed, so the share is always the same.
	if share := float64(orders["popular"]) / n; math.Abs(share-0.75) > 0.03 {
		t.Errorf("popular sale with the orders %v: got a share of %v, want about 0.75", orders, share)
	}
}

// Without Zipf, all buyers order equally often. With Zipf, a few buyers send many of
// the orders.
func TestArrivals(t *testing.T) {
	crowd := testCrowd(t, 100)
	count := func(zipf float64) (first, largest int) {
		c := Config{Seed: 1, Zipf: zipf}
		a := newArrivals(c, crowd)
		orders := map[string]int{}
		for range 5000 {
			orders[a.next().Subject]++
		}
		for _, n := range orders {
			largest = max(largest, n)
		}
		return orders[crowd[0].Subject], largest
	}
	if first, largest := count(0); first != 50 || largest != 50 {
		t.Errorf("arrivals in turn: got %d orders by the first buyer and at most %d by another, want 50", first, largest)
	}
	// The share of the first buyer is 1/ζ(1.5) for 100 buyers: about 0.41.
	if first, largest := count(1.5); first != largest || first < 1900 || first > 2300 {
		t.Errorf("arrivals by Zipf: got %d orders by the first buyer and at most %d by another, want about 2070 and no more", first, largest)
	}
}

// Each sale is judged by its own orders. A violation in one sale does not affect the
// other.
func TestRunAllJudgesEachSale(t *testing.T) {
	t.Parallel()
	url := newFakes(t, map[string]fault{"popular": {}, "other": {oversell: 10}})
	c := twoSales(quick(url))
	var progress bytes.Buffer
	c.Progress = &progress
	all, err := RunAll(t.Context(), c)
	check.Must(t, err)
	sound, broken := all.Sales[0], all.Sales[1]
	if got := names(sound.Verdict); got != "" || sound.SKU != "popular" || sound.Pending+sound.Paid != 80 {
		t.Errorf("sound sale %s: got violations %q, want none and 80 units\n%s", sound.SKU, got, text(t, sound))
	}
	if !strings.Contains(names(broken.Verdict), judge.Oversold) || broken.Oversold != 10 {
		t.Errorf("broken sale %s: got violations %q, want 10 units oversold\n%s", broken.SKU, names(broken.Verdict), text(t, broken))
	}
	if all.ExitCode() != judge.ExitViolation || all.Word() != "FAIL" {
		t.Errorf("all sales: got exit code %d and %s, want FAIL", all.ExitCode(), all.Word())
	}
	for _, q := range broken.Evidence.Requests {
		if q.Quantity > 1 {
			t.Fatalf("order of the mix: got %d units, want 1, the limit of the sale", q.Quantity)
		}
	}
	if got := sound.Attempts + broken.Attempts; got != c.requests() || broken.Attempts == 0 {
		t.Errorf("orders: got %d, want %d", got, c.requests())
	}

	var printed, machine bytes.Buffer
	check.Must(t, all.WriteText(&printed))
	contains(t, printed.String(), "VERDICT: FAIL\n", "120 units of 2 sales", "promises broken in 1 sale", "\npopular: ", "\nother: FAIL\n")
	check.Must(t, all.WriteJSON(&machine))
	var doc struct {
		Pass  *bool
		Sales []struct{ Oversold int }
	}
	if err := json.Unmarshal(machine.Bytes(), &doc); err != nil || doc.Pass == nil || *doc.Pass || len(doc.Sales) != 2 || doc.Sales[1].Oversold != 10 {
		t.Errorf("JSON of two sales: got %s and error %v, want a failure with 10 units oversold", &machine, err)
	}
	if !strings.Contains(progress.String(), " left, ") {
		t.Errorf("progress: got no stock in %q, want it", progress.String())
	}

	dir := t.TempDir()
	check.Must(t, all.Save(dir))
	contains(t, readFile(t, dir+"/report.html"), "<h1>FAIL</h1>", `href="other/report.html"`, "units beyond the 40 on sale", `class="line"`)
	for _, sku := range []string{"popular", "other"} {
		contains(t, readFile(t, dir+"/"+sku+"/report.html"), `class="line p99"`)
	}
}
