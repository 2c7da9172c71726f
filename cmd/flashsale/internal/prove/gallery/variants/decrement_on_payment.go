package variants

// An order takes no units: it is only a row. Its payment takes the units, by a
// conditional UPDATE in the transaction that marks the order as paid.
//
// It is right: paid units never exceed the total, and an unpaid order blocks no
// units. But an order promises nothing: a buyer may learn at the checkout that the
// sale is sold out. And in a rush all payments run one after the other, each with the
// sale's row locked until the commit is on disk.
//
// Instead: if buyers pay within minutes, hold their units until then. If they do not,
// a gate and batches can do for payments what they do for orders.
//
// Known from shops that take stock when the money arrives.
var _ = show(Variant{
	Name:      "decrement-on-payment",
	Does:      "orders take no units; UPDATE ... SET sold = sold + n on payment",
	Note:      "its orders promise no units, so the verdict judges confirmed payments",
	Source:    "shops that take stock when the money arrives",
	OnPayment: true,
	New:       takenBy(conditionalUpdate),
})
