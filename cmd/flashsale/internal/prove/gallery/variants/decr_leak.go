package variants

// Takes first and checks afterwards: below zero means sold out.
//
// What breaks it: no unit is left. A decrements: -1, refused. B: -2, refused.
// Then a sold unit is cancelled and returns: -1. The unit is for sale, but the
// counter is still below zero. A thousand refusals swallow the next thousand
// cancellations. Likewise, an order of two units strands the single last unit.
//
// Right: check and take in one step. Or return the units at once after a refusal,
// and accept that other buyers are refused in between.
//
// Seen in tutorials that praise DECR for being atomic, which it is.
var _ = show(Variant{
	Name:   "decr-leak",
	Does:   "DECRBY, and below zero is sold out",
	Breaks: "A refused order keeps the units that it has taken, so cancelled units only reduce the debt and are never sold again.",
	Source: "tutorials on atomic DECR",
	Caught: "undersold",
	New:    countedBy("decr_leak.lua"),
})
