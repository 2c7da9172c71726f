package variants

// Does not ask what a buyer already has.
//
// What breaks it: the limit is 2. A orders 2, and again 2, and again. Each
// order by itself is within the limit. So is a front end that hides the
// button, and a check of the quantity alone.
//
// Right: count a buyer's units where the stock is counted, in the same step,
// and take them off again when an order is closed.
//
// Known from every sale that bots have emptied.
var _ = show(Variant{
	Name:   "no-limit",
	Does:   "checks the quantity of each order, and not what its buyer has",
	Breaks: "Each order is within the limit, and one buyer's orders together are not.",
	Source: "sales emptied by bots",
	Caught: "over_limit",
	New:    countedBy("no_limit.lua"),
})
