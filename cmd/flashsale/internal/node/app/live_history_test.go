package app

import (
	"encoding/json"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// Who comes to watch is sent first what was sold while nobody watched.
func TestWatchBeginsWithTheHistory(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), often("one"))
	n.put("S", 3, 2, 900).ok()
	n.order("S", "ann").is(201)
	n.order("S", "bob").is(201)

	type moment struct {
		At, Units, Available, Sold int64
		What                       string
	}
	type told struct {
		event, SKU, Began string
		ID                int64
		Points, Marks     []moment
	}
	next := func(w *stream) (e told) {
		t.Helper()
		for w.lines.Scan() {
			field, value, _ := strings.Cut(w.lines.Text(), ": ")
			switch field {
			case "event":
				e.event = value
			case "data":
				check.Must(t, json.Unmarshal([]byte(value), &e))
				return e
			}
		}
		t.Fatalf("the stream ended: %v", w.lines.Err())
		return e
	}
	var w *stream
	check.Eventually(t, "both orders are in the history", func() bool {
		w = watch(t, n.URL(), "S", "")
		h := next(w)
		if h.event != "history" || h.SKU != "S" || h.Began == "" {
			t.Fatalf("first comes %+v", h)
		}
		if len(h.Points) < 2 || len(h.Marks) != 1 || h.Marks[0].What != "opened" || h.Marks[0].Units != 3 {
			_ = w.body.Close() // an address has only so many places
			return false
		}
		first, last := h.Points[0], h.Points[len(h.Points)-1]
		if last.Sold < 2 {
			_ = w.body.Close()
		}
		return first.Available == 3 && first.Sold == 0 && last.Available == 1 && last.Sold == 2
	})
	one, two := next(w), next(w)
	if one.event != "sale" || one.ID == 0 || two.ID != one.ID+1 {
		t.Errorf("then %q %d and %q %d", one.event, one.ID, two.event, two.ID)
	}
	n.put("S", 5, 2, 900).ok()
	for len(one.Marks) == 0 {
		one = next(w)
	}
	if len(one.Marks) != 1 || one.Marks[0].What != "restocked" || one.Marks[0].Units != 2 {
		t.Errorf("after a restock: %+v", one.Marks)
	}
}
