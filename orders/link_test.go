package orders

import "testing"

// A link that comes and goes is neither lost nor found: only what lasts counts.
func TestLinkDoesNotFlap(t *testing.T) {
	var l link
	see := func(answered bool, times int) (changes int) {
		for range times {
			if l.saw(answered) {
				changes++
			}
		}
		return changes
	}
	blink := func(usual bool) {
		t.Helper()
		for range 100 {
			if see(!usual, contraryLooks-1)+see(usual, 1) > 0 || l.isLost() == usual {
				t.Fatalf("changed its mind though Redis is usually there: %t", usual)
			}
		}
	}
	blink(true)
	if see(false, contraryLooks) != 1 || !l.isLost() {
		t.Error("Redis has been away for long, and the link is not lost")
	}
	blink(false)
	if see(true, contraryLooks) != 1 || l.isLost() {
		t.Error("Redis has been back for long, and the link is lost")
	}
}
