package variants

// Compares the units sold with the total before it adds the order.
//
// What breaks it: 10 units are on sale, 10 are sold. The script checks that
// total >= sold; 10 >= 10 is true, and the 11th is sold. It happens in every sale
// that sells out. A test with a sale that does not sell out misses it.
//
// Right: check that the units sold and the units ordered, together, are within the
// total, as take.lua and reserve.lua do.
//
// Seen in GuoZhaoran/spikeSystem, remoteSpike.go, issue 14.
var _ = show(Variant{
	Name:   "oversell-by-one",
	Does:   "a script that compares before it adds",
	Breaks: "total >= sold is still true when everything is sold, so the last unit is sold twice.",
	Source: "GuoZhaoran/spikeSystem, issue 14",
	Caught: "oversold",
	New:    countedBy("oversell_by_one.lua"),
})
