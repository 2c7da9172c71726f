package loadtest

import (
	"fmt"
	"strconv"
	"time"
)

// Sale is one of several that share an attack.
type Sale struct {
	SKU           string  // must have no orders yet; empty: a new one per run
	Name          string  // shown to buyers
	Stock         int     // units on sale
	PerBuyerLimit int     // units one buyer may hold
	Weight        float64 // its share of the orders, next to the others'
}

// sales are those under attack: at least one.
func (c Config) sales() []Sale {
	if len(c.Sales) > 0 {
		return c.Sales
	}
	return []Sale{{SKU: c.SKU, Name: c.Name, Stock: c.Stock, PerBuyerLimit: c.PerBuyerLimit, Weight: 1}}
}

// of is the config of one sale alone.
func (c Config) of(s Sale) Config {
	c.SKU, c.Name, c.Stock, c.PerBuyerLimit = s.SKU, s.Name, s.Stock, s.PerBuyerLimit
	c.MaxQuantity = min(c.MaxQuantity, s.PerBuyerLimit) // more than that would be refused for its size
	return c
}

// newSKU is a SKU that nobody has used.
func newSKU(name string) string { return name + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) }

func (c Config) validateSales(check func(ok bool, format string, args ...any)) {
	known, largest := map[string]bool{}, 0
	for i, s := range c.sales() {
		in := ""
		if len(c.Sales) > 0 {
			in = fmt.Sprintf("Sales[%d].", i)
		}
		check(s.SKU == "" || skuForm.MatchString(s.SKU), "%sSKU: %q does not match %s", in, s.SKU, skuForm)
		check(s.SKU == "" || !known[s.SKU], "%sSKU: %q is another sale's already", in, s.SKU)
		check(s.Name != "", "%sName: empty", in)
		check(s.Stock >= 1, "%sStock: %d, want at least 1", in, s.Stock)
		check(s.PerBuyerLimit >= 1, "%sPerBuyerLimit: %d, want at least 1", in, s.PerBuyerLimit)
		check(s.Weight > 0, "%sWeight: %v, want more than 0", in, s.Weight)
		known[s.SKU], largest = true, max(largest, s.PerBuyerLimit)
	}
	check(c.MaxQuantity >= 1 && c.MaxQuantity <= largest, "MaxQuantity: %d, want 1..PerBuyerLimit", c.MaxQuantity)
}
