package variants

// An order takes nothing: it is a row, as many as come. Its payment takes the
// units, by a conditional UPDATE in the transaction that marks it as paid.
//
// It is right: what is paid never exceeds the total, and who does not pay keeps
// nothing from anybody. But an order promises nothing: whoever loses learns it at
// the checkout. And in a rush all pay one after the other, each with the sale's
// row locked until the commit is on disk.
//
// Instead: where buyers pay within minutes, hold their units until then. Where
// they don't, a gate and batches do for payments what they do for orders.
//
// Known from shops that take stock when the money is there.
var _ = show(Variant{
	Name:      "decrement-on-payment",
	Does:      "orders take nothing, UPDATE ... SET sold = sold + n when they are paid",
	Note:      "its orders promise no units, so it is judged by what is paid",
	Source:    "shops that take stock when the money is there",
	OnPayment: true,
	New:       takenBy(conditionalUpdate),
})
