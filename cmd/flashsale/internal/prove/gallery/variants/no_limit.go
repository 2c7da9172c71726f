package variants

// Does not check what a buyer already has.
//
// What breaks it: the limit is 2. A orders 2, and 2 again, and again. Each order
// alone is within the limit. A front end that hides the button makes the same
// mistake, and so does a check of the quantity alone.
//
// Right: count a buyer's units in the same step that counts the stock, and subtract
// them when an order is closed.
//
// Known from every sale that bots have emptied.
var _ = show(Variant{
	Name:   "no-limit",
	Does:   "checks the quantity of each order, but not the units that its buyer has",
	Breaks: "Each order is within the limit, and one buyer's orders together are not.",
	Source: "sales emptied by bots",
	Caught: "over_limit",
	New:    countedBy("no_limit.lua"),
})
