package variants

// Checks the quantity, but takes one unit.
//
// What breaks it: 10 units are left, A orders 2. There are 2, the counter goes
// to 9, and A's order has quantity 2. Ten such orders sell 20 of 10 units. A test
// with a quantity of 1 misses it.
//
// Right: one number, read once, is compared, taken, stored and released.
//
// Seen in yxshwanth/flash-sale-engine.
var _ = show(Variant{
	Name:   "quantity-ignored",
	Does:   "compares with the quantity, and DECRs by one",
	Breaks: "An order of two takes one unit off the stock.",
	Source: "yxshwanth/flash-sale-engine",
	Caught: "oversold",
	New:    countedBy("quantity_ignored.lua"),
})
