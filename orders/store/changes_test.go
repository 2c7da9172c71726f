package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// number numbers all changed rows.
func number(t testing.TB, s *Store) {
	t.Helper()
	check.Eventually(t, "no changed row is without a number", func() bool {
		kit.Exec(t, s.DB, "UPDATE feed SET numbered_at = '2000-01-01', not_before = '2000-01-01' WHERE id = 1") // without the pause
		check.Must(t, check.Err(s.Number(t.Context())))
		state, err := s.FeedState(t.Context())
		return err == nil && state.Waiting == 0
	})
}

// patientStore returns a store whose sessions and calls do not time out while a test holds their data
// back, however busy the machine is.
func patientStore(t testing.TB, sql string) *Store {
	t.Helper()
	separator := "?"
	if strings.Contains(sql, "?") {
		separator = "&"
	}
	const long = 10 * time.Minute
	s, err := Open(fmt.Sprint(sql, separator, "readTimeout=", long), Config{Timeout: long, WaitTimeout: long})
	check.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// isCommit reports whether the client ends a transaction.
func isCommit(sent []byte) bool {
	return bytes.Contains(sent, []byte("COMMIT")) && !bytes.Contains(sent, []byte("READ COMMITTED"))
}

// A reader is a consumer of the feed. It keeps the last state of each order and sale.
type reader struct {
	s      *Store
	cursor string
	orders map[string]Change
	sales  map[string]Change
	last   int64
}

func newReader(s *Store) *reader {
	return &reader{s: s, orders: map[string]Change{}, sales: map[string]Change{}}
}

// read reads to the end of the feed and returns the number of changes.
func (r *reader) read(t testing.TB, limit int) (n int) {
	t.Helper()
	for {
		changes, next, err := r.s.Changes(t.Context(), r.cursor, limit)
		check.Must(t, err)
		for _, c := range changes {
			if c.No < r.last {
				t.Errorf("number of a change: got %d after %d, want no lower number", c.No, r.last)
			}
			if r.last = c.No; c.Sale != nil {
				r.sales[c.Sale.SKU] = c
			} else {
				r.orders[c.Order.ID] = c
			}
		}
		if n, r.cursor = n+len(changes), next; len(changes) < limit {
			return n
		}
	}
}

// wantRows checks that the reader knows the state of every row.
func (r *reader) wantRows(t testing.TB) {
	t.Helper()
	rows := kit.RowsOf(t, r.s.DB)
	for id, o := range rows {
		got, known := r.orders[id]
		if !known || fmt.Sprint(got.Order.Row()) != fmt.Sprint(o.Row()) && text(t, got.Order.Row()) != text(t, o.Row()) {
			t.Errorf("order %s: got %v from the feed, want %+v", id, got.Order, o)
		}
		if int64(len(got.Refunds)) != o.Claims {
			t.Errorf("refunds of order %s: got %d from the feed, want %d", id, len(got.Refunds), o.Claims)
		}
	}
	if len(r.orders) != len(rows) {
		t.Errorf("orders of the feed: got %d, want %d", len(r.orders), len(rows))
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	check.Must(t, err)
	return string(raw)
}

// Every change of an order, and every change of a sale by an operator, is reported once numbered.
func TestFeedReportsEveryChange(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		s, ids := stocked(t, sql, 5)
		r, ctx := newReader(s), t.Context()
		buyer := func(id string) string { return kit.RowsOf(t, s.DB)[id].Buyer }
		paid, cancelled, expired, late := ids[0], ids[1], ids[2], ids[3]
		for _, step := range []struct {
			name    string
			act     func() error
			changes int
		}{
			{"insert", func() error { return nil }, 6},
			{"nothing", func() error { return nil }, 0},
			{"pay", func() error { return check.Err(s.Pay(ctx, buyer(paid), paid, "r")) }, 1},
			{"pay again", func() error { return check.Err(s.Pay(ctx, buyer(paid), paid, "r")) }, 0},
			{"cancel", func() error { return check.Err(s.Cancel(ctx, buyer(cancelled), cancelled)) }, 1},
			{"expire", func() error {
				kit.MakeOverdue(t, s.DB, expired, late)
				check.Eventually(t, "both orders are expired", func() bool {
					_, _ = s.Expire(ctx) // gives up a sale that takes long
					rows := kit.RowsOf(t, s.DB)
					return rows[expired].Status == orders.Expired && rows[late].Status == orders.Expired
				})
				return nil
			}, 2},
			{"refund claim", func() error {
				o := kit.RowsOf(t, s.DB)[expired]
				return s.RecordClaim(ctx, &o, "too-late", orders.NotReleased)
			}, 1},
			{"release", func() error {
				fence, err := s.TakeOver(ctx, "S")
				check.Must(t, err)
				return s.MarkOrdersReleased(ctx, "S", fence.Fence, []string{expired, late, cancelled})
			}, 0},
			{"late payment", func() error {
				sale, err := s.Sale(ctx, "S")
				check.Must(t, err)
				q := kit.QueuedPayment(orders.NewHoldID(late), buyer(late), late, "late", 1)
				q.Epoch = sale.Epoch
				return check.Err(s.Commit(ctx, "S", sale.Fence, []inventory.QueuedOrder{q}))
			}, 1},
			{"void", func() error {
				return check.Err(s.Void(ctx, "S", []string{paid, late}, "bots"))
			}, 2},
			{"mismatch", func() error {
				amount := int64(1)
				_, err := s.RefuseCharge(ctx, buyer(ids[4]), ids[4], "other", orders.Charge{Amount: &amount})
				check.Is(t, err, orders.ErrAmountMismatch)
				return nil
			}, 1},
			{"restock", func() error {
				sale, err := s.Sale(ctx, "S")
				check.Must(t, err)
				sale.Total++
				return check.Err(s.PutSale(ctx, *sale))
			}, 1},
			{"end", func() error { return check.Err(s.EndSale(ctx, "S")) }, 1},
			{"end again", func() error { return check.Err(s.EndSale(ctx, "S")) }, 0},
		} {
			check.Must(t, step.act())
			number(t, s)
			if n := r.read(t, 2); n != step.changes {
				t.Errorf("changes after %q: got %d, want %d", step.name, n, step.changes)
			}
			r.wantRows(t)
		}
		sale, err := s.Sale(ctx, "S")
		check.Must(t, err)
		if got := r.sales["S"].Sale; text(t, got.JSON()) != text(t, sale.JSON()) {
			t.Errorf("sale of the feed: got %s, want %s", text(t, got.JSON()), text(t, sale.JSON()))
		}
		again := newReader(s)
		again.read(t, 1000)
		again.wantRows(t)
	})
}

// The form of a change in the API.
func TestChangeJSON(t *testing.T) {
	key, at := "k", time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	o := kit.Row("id", "ann", key, 2, orders.Paid, false)
	o.CreatedAt, o.ExpiresAt, o.PaidAt, o.IdempotencyKey = at, at, &at, &key
	sale := kit.Sale("S", 3, 1)
	for want, c := range map[string]Change{
		`"no":7,"kind":"order","order":{`: {No: 7, Order: &o},
		`"refunds":[]`:                    {No: 7, Order: &o},
		`"idempotency_key":"k"`:           {No: 7, Order: &o},
		`"refunds":[{"payment_ref":"r"`:   {No: 7, Order: &o, Refunds: []orders.Claim{{PaymentRef: "r"}}},
		`"kind":"sale","sale":{"sku":"S"`: {No: 8, Sale: &sale},
	} {
		if got := text(t, c); !strings.Contains(got, want) {
			t.Errorf("JSON of a change: got %s, want it to contain %s", got, want)
		}
	}
}

// Numbers become visible in their order, because a transaction that gives numbers waits for the
// one before it. Otherwise a reader would pass the rows of the first one, which commits last.
func TestNumbersBecomeVisibleInOrder(t *testing.T) {
	t.Parallel()
	sql := servertest.OpenSQL(t, servers.KindReal)
	s, ids := stocked(t, sql, 1)
	number(t, s)
	r := newReader(s)
	r.read(t, 10)
	viaStores, w := servertest.SQLVia(t, &servers.Stores{SQL: sql})
	slow := patientStore(t, viaStores.SQL)
	commit := w.Hold(isCommit)
	kit.Exec(t, s.DB, "UPDATE feed SET numbered_at = '2000-01-01' WHERE id = 1")
	check.Must(t, check.Err(s.Cancel(t.Context(), kit.RowsOf(t, s.DB)[ids[0]].Buyer, ids[0])))
	var both sync.WaitGroup
	both.Go(func() { check.OK(t, check.Err(slow.Number(check.Context(t)))) })
	check.Receive(t, "the first transaction commits", commit.Caught())
	// Another order changes, and another node numbers it.
	kit.Exec(t, s.DB, "UPDATE sales SET change_no = NULL")
	second, waiting := make(chan error, 1), 0
	both.Go(func() { second <- check.Err(s.Number(check.Context(t))) })
	check.Eventually(t, "the second transaction waits for the first one, or is done", func() bool {
		var now bool
		check.Must(t, s.DB.Raw("SELECT EXISTS(SELECT 1 FROM information_schema.processlist WHERE info LIKE 'UPDATE feed%' AND db = DATABASE())").Row().Scan(&now))
		if waiting++; !now {
			waiting = 0
		}
		return waiting > 20 || len(second) > 0
	})
	if n := r.read(t, 10); n != 0 {
		t.Errorf("changes while the first transaction is not committed: got %d, want none", n)
	}
	commit.Pass()
	both.Wait()
	check.OK(t, <-second)
	number(t, s)
	r.read(t, 10)
	r.wantRows(t)
}

// Rows that get numbers while a page is read are left to the next page. Otherwise a page could
// contain the sale, which is read last and has the highest number, without an order before it.
func TestPageEndsAtTheHead(t *testing.T) {
	t.Parallel()
	sql := servertest.OpenSQL(t, servers.KindReal)
	s, ids := stocked(t, sql, 2)
	number(t, s)
	via, w := servertest.SQLVia(t, &servers.Stores{SQL: sql})
	r := newReader(patientStore(t, via.SQL))
	r.read(t, 10)
	cancel := func(id string) {
		check.Must(t, check.Err(s.Cancel(t.Context(), kit.RowsOf(t, s.DB)[id].Buyer, id)))
		number(t, s)
	}
	cancel(ids[0])
	sales := w.Hold(func(sent []byte) bool { return bytes.Contains(sent, []byte("FORCE INDEX (sales_changes)")) })
	done := make(chan int, 1)
	go func() { done <- r.read(t, 2) }()
	check.Receive(t, "the page reads the sales", sales.Caught())
	cancel(ids[1])
	check.Must(t, check.Err(s.EndSale(t.Context(), "S")))
	number(t, s)
	sales.Pass()
	check.Receive(t, "the page is read", done)
	r.read(t, 2)
	r.wantRows(t)
}

// A row that another transaction has locked is numbered later. The other rows do not wait.
func TestNumberDoesNotWait(t *testing.T) {
	t.Parallel()
	sql := servertest.OpenSQL(t, servers.KindReal)
	s, ids := stocked(t, sql, 3)
	r := newReader(s)
	check.Must(t, patientStore(t, sql).Transact(t.Context(), func(tx *gorm.DB) error {
		kit.Exec(t, tx, "UPDATE orders SET change_no = NULL, paid_at = ? WHERE id = ?", kit.ClockOf(t, tx), ids[1])
		check.Must(t, check.Err(s.Number(t.Context())))
		if n := r.read(t, 10); n != 3 || r.orders[ids[1]].Order != nil {
			t.Errorf("changes beside a locked order: got %d, want the other two orders and the sale", n)
		}
		return nil
	}))
	number(t, s)
	r.read(t, 10)
	r.wantRows(t)
}

// Many transactions change orders at the same time, also in long transactions, while several nodes
// number and several readers read. Each reader ends with the state of every row.
func TestFeedSkipsNothing(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		s, ids := stocked(t, sql, 60)
		ctx, stop := context.WithCancel(t.Context())
		var numbering, working sync.WaitGroup
		for range 3 {
			node := openStore(t, sql)
			numbering.Go(func() {
				for ctx.Err() == nil {
					_, _ = node.Number(ctx)
				}
			})
		}
		rows := kit.RowsOf(t, s.DB)
		rnd := check.Rand(t)
		var mu sync.Mutex
		pick := func() string { mu.Lock(); defer mu.Unlock(); return ids[rnd.IntN(len(ids))] }
		for range 4 {
			working.Go(func() {
				for range 30 {
					id := pick()
					var err error
					switch o := rows[id]; rand.IntN(3) {
					case 0:
						_, err = s.Pay(t.Context(), o.Buyer, id, "r-"+id)
					case 1:
						_, err = s.Cancel(t.Context(), o.Buyer, id)
					case 2:
						err = s.RecordClaim(t.Context(), &o, fmt.Sprint("claim-", rand.IntN(5)), orders.OrderClosed)
					}
					if err != nil && !errors.Is(err, orders.ErrAlreadyPaid) && !errors.Is(err, orders.ErrOrderClosed) && !errors.Is(err, orders.ErrUnavailable) {
						t.Errorf("change order %s: got error %v", id, err)
					}
				}
			})
		}
		readers := []*reader{newReader(s), newReader(s)}
		done := make(chan struct{})
		go func() { working.Wait(); close(done) }()
		for reading := true; reading; {
			select {
			case <-done:
				reading = false
			default:
				for _, r := range readers {
					r.read(t, 1+rand.IntN(9))
				}
			}
		}
		stop()
		numbering.Wait()
		number(t, s)
		for _, r := range readers {
			r.read(t, 7)
			r.wantRows(t)
		}
	})
}

// The transaction that gives numbers is lost before its commit. Another node gives the numbers.
func TestNumberingNodeIsKilled(t *testing.T) {
	t.Parallel()
	sql := servertest.OpenSQL(t, servers.KindReal)
	s, _ := stocked(t, sql, 4)
	via, w := servertest.SQLVia(t, &servers.Stores{SQL: sql})
	dies := openStore(t, via.SQL)
	commit := w.Hold(isCommit)
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := dies.Number(ctx); ended <- err }()
	check.Receive(t, "the transaction commits", commit.Caught())
	kill()
	commit.Drop()
	if err := check.Receive(t, "Number returns", ended); err == nil {
		t.Error("Number of a killed node: got no error, want one")
	}
	number(t, s)
	r := newReader(s)
	r.read(t, 3)
	r.wantRows(t)
}

// The state shows how long changes wait. A call that numbers all of them ends the wait, and a call
// that leaves some, because they are more than a batch, does not.
func TestFeedState(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		s, _ := stocked(t, sql, numberBatch+1)
		complete := func(age time.Duration) FeedState {
			now := kit.ClockOf(t, s.DB)
			kit.Exec(t, s.DB, "UPDATE feed SET complete_at = ?, numbered_at = '2000-01-01'", now.Add(-age))
			check.Must(t, check.Err(s.Number(t.Context())))
			state, err := s.FeedState(t.Context())
			check.Must(t, err)
			return state
		}
		if state := complete(time.Hour); state.Waiting < time.Hour || state.Last == 0 {
			t.Errorf("state after a full batch: got %+v, want changes that wait for an hour", state)
		}
		if state := complete(time.Hour); state.Waiting != 0 {
			t.Errorf("state after the last batch: got %+v, want none that wait", state)
		}
		check.Must(t, check.Err(s.EndSale(t.Context(), "S")))
		if state, err := s.FeedState(t.Context()); err != nil || state.Waiting <= 0 || state.Waiting > time.Hour/2 {
			t.Errorf("state after a change: got %+v, error %v, want a change that has just been made", state, err)
		}
	})
}

// Numbering pauses after each transaction and while it is deferred. A clock that was set back does
// not stop it, and numbers still increase.
func TestNumberingIsPaced(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		s, _ := stocked(t, sql, 1)
		ctx := t.Context()
		numbers := func(numberedAt, notBefore time.Duration) int64 {
			now := kit.ClockOf(t, s.DB)
			kit.Exec(t, s.DB, "UPDATE feed SET numbered_at = ?, not_before = ? WHERE id = 1", now.Add(numberedAt), now.Add(notBefore))
			no, err := s.Number(ctx)
			check.Must(t, err)
			return no
		}
		first := numbers(-time.Hour, -time.Hour)
		for name, c := range map[string]struct {
			numberedAt, notBefore time.Duration
			want                  bool
		}{
			"just numbered":                 {time.Second - 10*time.Millisecond, -time.Hour, false},
			"deferred":                      {-time.Hour, 50 * time.Second, false},
			"numbered before a clock reset": {time.Hour, -time.Hour, true},
			"deferred before a clock reset": {-time.Hour, time.Hour, true},
		} {
			var no int64
			check.Eventually(t, "a call within the second for which a time in the future counts", func() bool {
				began := kit.ClockOf(t, s.DB)
				no = numbers(c.numberedAt, c.notBefore)
				return kit.ClockOf(t, s.DB).Sub(began) < time.Second
			})
			if (no > 0) != c.want || c.want && no <= first {
				t.Errorf("number, %s: got %d after %d, want a higher number: %v", name, no, first, c.want)
			}
		}
		kit.Exec(t, s.DB, "UPDATE feed SET last = last + 1000000") // the clock was set back by far
		ahead := numbers(-time.Hour, -time.Hour)
		if next := numbers(-time.Hour, -time.Hour); next != ahead+1 {
			t.Errorf("number after a clock reset: got %d, want %d", next, ahead+1)
		}
		check.Must(t, s.DeferNumbering(ctx, time.Minute))
		kit.Exec(t, s.DB, "UPDATE feed SET numbered_at = '2000-01-01'")
		if no, err := s.Number(ctx); no != 0 || err != nil {
			t.Errorf("number while deferred: got %d, error %v, want none", no, err)
		}
	})
}

func TestCursors(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		s, _ := stocked(t, sql, 3)
		number(t, s)
		r := newReader(s)
		r.read(t, 2)
		var name string
		check.Must(t, s.DB.Raw("SELECT name FROM feed").Row().Scan(&name))
		now := kit.ClockOf(t, s.DB).UnixMilli()
		for what, cursor := range map[string]string{
			"no base64":            "%",
			"text":                 "abc",
			"another installation": place{1, afterAll, ""}.cursor("another"),
			"many digits":          place{1, strings.Repeat("9", 100_000), ""}.cursor(name),
			"negative":             place{-1, afterAll, ""}.cursor(name),
			"beyond the head":      place{now + 10*time.Minute.Milliseconds(), afterAll, ""}.cursor(name),
			"another kind":         place{1, "buyer", "x"}.cursor(name),
			"no order id":          place{1, orderKind, "' OR 1=1"}.cursor(name),
			"changed":              r.cursor + "A",
		} {
			_, _, err := s.Changes(t.Context(), cursor, 10)
			if invalid, ok := errors.AsType[*orders.InvalidError](err); !ok || invalid.Fields["after"] == "" {
				t.Errorf("cursor, %s: got error %v, want one of the field after", what, err)
			}
		}
		// The reader has read another server before, behind which this one lags.
		ahead := place{now + 1, orderKind, orders.NewOrderID("S")}.cursor(name) // the last number may be now
		if changes, next, err := s.Changes(t.Context(), ahead, 10); len(changes) != 0 || next != ahead || err != nil {
			t.Errorf("changes after the head: got %d, cursor %s, error %v, want none and the same cursor", len(changes), next, err)
		}
	})
}

// A page is answered only if what it reports is durable.
func TestChangesWaitForTheBarrier(t *testing.T) {
	t.Parallel()
	sql := servertest.OpenSQL(t, servers.KindReal)
	s, _ := stocked(t, sql, 1)
	number(t, s)
	via, w := servertest.SQLVia(t, &servers.Stores{SQL: sql})
	other := openStore(t, via.SQL)
	w.LoseAnswers(100, func(sent []byte) bool { return bytes.Contains(sent, []byte("barrier = barrier + 1")) })
	if changes, _, err := other.Changes(t.Context(), "", 10); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("changes behind a lost barrier: got %d, error %v, want ErrUnavailable", len(changes), err)
	}
}

// undoFeed undoes the migration to the feed, by its statements.
func undoFeed(down string, exec func(statement string)) {
	for statement := range strings.SplitSeq(strings.TrimSpace(down), ";") {
		if strings.TrimSpace(statement) != "" {
			exec(statement)
		}
	}
	exec("DELETE FROM goose_db_version WHERE version_id = 2")
}

// A database of the version before the feed, with orders in it, is upgraded, and the feed reports
// all of them.
func TestMigrateToTheFeed(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		s, _ := stocked(t, sql, 7)
		folder := "mysql"
		if s.sqlite {
			folder = "sqlite"
		}
		script, err := migrations.ReadFile("migrations/" + folder + "/00002_changes.sql")
		check.Must(t, err)
		_, down, _ := strings.Cut(string(script), "-- +goose Down")
		undoFeed(down, func(statement string) { kit.Exec(t, s.DB, statement) })
		if n, err := s.Migrate(t.Context()); n != 1 || err != nil {
			t.Fatalf("Migrate: got %d migrations, error %v, want 1", n, err)
		}
		number(t, s)
		r := newReader(s)
		r.read(t, 3)
		r.wantRows(t)
	})
}

// A migration continues after the process was killed between any two of its statements.
func TestMigrateToTheFeedAfterACrash(t *testing.T) {
	t.Parallel()
	script, err := migrations.ReadFile("migrations/mysql/00002_changes.sql")
	check.Must(t, err)
	up, down, _ := strings.Cut(string(script), "-- +goose Down")
	up = regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(up, "")
	statements := regexp.MustCompile(`;\s*\n`).Split(strings.TrimSuffix(strings.TrimSpace(up), ";"), -1)
	s, _ := stocked(t, servertest.OpenSQL(t, servers.KindReal), 1)
	conn, err := s.sql.Conn(t.Context())
	check.Must(t, err)
	defer func() { _ = conn.Close() }()
	exec := func(statement string) {
		_, err := conn.ExecContext(t.Context(), statement)
		check.Must(t, err)
	}
	for killed := range len(statements) + 1 {
		undoFeed(down, exec)
		for _, statement := range statements[:killed] {
			exec(statement)
		}
		if n, err := s.Migrate(t.Context()); n != 1 || err != nil {
			t.Fatalf("Migrate after %d statements: got %d, error %v, want 1", killed, n, err)
		}
	}
}

// Every statement that updates orders marks them as changed, or is listed here with the reason.
func TestUpdatesMarkTheChange(t *testing.T) {
	reasons := map[string]string{
		`"restored_at": nil}`:          "the release of a hold is no change of the order",
		`"restored_at": s.sqlNow()}`:   "the release of a hold is no change of the order",
		`SET change_no = ? WHERE "+id`: "gives the number",
	}
	files, err := filepath.Glob("*.go")
	check.Must(t, err)
	found := map[string]int{}
	statement := regexp.MustCompile(`(?s)Model\(&orders\.Order\{\}\)[^;]*?Updates\((?:map\[string\]any\{.*?\}|\w+)\)|"UPDATE (?:orders|"\+table\+")[^\n]*`)
	variable := regexp.MustCompile(`Updates\((\w+)\)`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		check.Must(t, err)
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, update := range statement.FindAllString(string(source), -1) {
			found[file]++
			if name := variable.FindStringSubmatch(update); name != nil {
				update += regexp.MustCompile(`(?m)^\s*` + name[1] + ` := .*$`).FindString(string(source))
			}
			excused := false
			for part := range maps.Keys(reasons) {
				excused = excused || strings.Contains(update, part)
			}
			if !excused && !strings.Contains(update, `"change_no": nil`) && !strings.Contains(update, "change_no = NULL") {
				t.Errorf("statement of %s: got %s, want it to set change_no to NULL, or a reason in this test", file, update)
			}
		}
	}
	if found["close.go"] < 2 || found["claims.go"] < 3 || found["release.go"] < 1 || found["void.go"] < 1 || found["changes.go"] < 1 {
		t.Errorf("statements that update orders: found %v, want those of close.go, claims.go, release.go, void.go and changes.go", found)
	}
}
