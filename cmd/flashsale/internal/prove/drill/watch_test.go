package drill

import (
	"strings"
	"testing"
)

// A snapshot is judged by itself and compared with the previous one.
func TestSnapshot(t *testing.T) {
	good := sale{total: 5, sold: 3, open: 3, fence: 2, epoch: 2, rows: 4, paid: 1}
	for name, c := range map[string]struct {
		change func(s *sale)
		want   string
	}{
		"right":           {func(*sale) {}, ""},
		"grown":           {func(s *sale) { s.fence++; s.epoch++; s.rows++; s.paid++ }, ""},
		"oversold":        {func(s *sale) { s.sold, s.open = 6, 6 }, "oversold"},
		"too many orders": {func(s *sale) { s.open = 6 }, "oversold"},
		"miscounted":      {func(s *sale) { s.open = 2 }, "miscounted"},
		"fence":           {func(s *sale) { s.fence-- }, "went back"},
		"epoch":           {func(s *sale) { s.epoch-- }, "went back"},
		"an order":        {func(s *sale) { s.rows-- }, "went back"},
		"a payment":       {func(s *sale) { s.paid-- }, "went back"},
	} {
		t.Run(name, func(t *testing.T) {
			now := good
			c.change(&now)
			s := &snapshot{sales: map[string]sale{"S": now}}
			got := strings.Join(s.judge(&snapshot{sales: map[string]sale{"S": good}}), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("snapshot of the sale: got violation %q, want %q", got, c.want)
			}
		})
	}
}
