package variants

// Compares what is sold with the total before it adds the order to it.
//
// What breaks it: 10 units are on sale, 10 are sold. The script asks whether
// the total is at least what is sold; 10 >= 10 is true, and the 11th is sold.
// It happens to every sale that sells out, and no test of a sale that doesn't
// will tell.
//
// Right: ask whether what is sold and what is asked for, together, are within
// the total, as take.lua and reserve.lua do.
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
