package app

import (
	"slices"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// logs reports whether the log has an entry with this title that contains text.
func (e *seen) logs(what, text string) bool {
	return slices.ContainsFunc(e.Events, func(l seenEntry) bool { return l.What == what && strings.Contains(l.Says, text) })
}

// The stream of the overview begins with the history of the node, also from the time without
// watchers. The overview numbers its snapshots as the sales number theirs. The log of the
// overview contains the claims of all nodes.
func TestOverview(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	one, two := start(t, s, often("one")), start(t, s, often("two"))
	one.put("S", 3, 2, 900)
	paid, late := one.sold("S", "ann").where(), one.orderBy("S", "ann", "late").want(201).where()
	one.pay("ann", paid, "p").want(200)
	one.cancel("ann", late).want(200)
	check.Eventually(t, "the history has a second with accepted orders", func() bool {
		w := watch(t, one.URL(), "", one.token("op", true))
		defer func() { _ = w.body.Close() }()
		first, _ := w.next()
		return first.event == "history" && slices.ContainsFunc(first.Points, func(p seenPoint) bool { return p.Accepted > 0 })
	})
	all, sale := watch(t, one.URL(), "", one.token("op", true)), watch(t, one.URL(), "S", one.token("op", true))
	all.until("one is paid", "overview", func(e seen) bool { return len(e.Sales) == 1 && e.Sales[0].Sold == 1 && e.Sales[0].Paid == 1 })
	seenID := sale.until("a snapshot", "sale", func(e seen) bool { return e.ID > 0 }).ID
	all.until("that snapshot, or a later one", "overview", func(e seen) bool { return e.ID >= seenID })
	overviewOfTwo := watch(t, two.URL(), "", two.token("op", true))
	all.until("the p99 of a sale on this node, once", "overview", func(e seen) bool {
		one.orderBy("S", "ann", "p99").want(201)
		return len(e.Sales) == 1 && e.Sales[0].P99 > 0
	})
	overviewOfTwo.until("no orders on the other node", "overview", func(e seen) bool { return len(e.Sales) == 1 && e.Sales[0].P99 == 0 && len(e.Nodes) == 2 })
	two.pay("ann", late, "too-late").want(409)
	one.put("S", 8, 2, 900)
	all.until("the log has both", "overview", func(e seen) bool {
		return e.logs("Refund claimed", "Order ") && e.logs("Restocked", "5 units more, 8 in all.")
	})
	watch(t, one.URL(), "", one.token("op", true)).until("the log so far", "events", func(e seen) bool { return e.logs("Restocked", "") })
}
