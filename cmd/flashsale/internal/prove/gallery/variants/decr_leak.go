package variants

// Takes first and looks after: below zero means sold out.
//
// What breaks it: nothing is left. A decrements: -1, refused. B: -2, refused.
// Then a sold unit is cancelled and comes back: -1. It is on sale, and the
// counter says it is not. A thousand refusals swallow the next thousand
// cancellations; two units asked for where one is left strand that one.
//
// Right: look and take in one step; or give back at once what was taken in
// vain, and live with others being refused in between.
//
// Seen in tutorials that praise DECR for being atomic, which it is.
var _ = show(Variant{
	Name:   "decr-leak",
	Does:   "DECRBY, and below zero is sold out",
	Breaks: "A refusal has taken units as well and keeps them, so cancelled units drown in the debt and are never sold again.",
	Source: "tutorials on atomic DECR",
	Caught: "undersold",
	New:    countedBy("decr_leak.lua"),
})
