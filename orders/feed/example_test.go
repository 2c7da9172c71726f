package feed_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	_ "github.com/glebarez/sqlite" // the driver "sqlite"

	"flashsale/loadtest/servers"
	"flashsale/orders"
	"flashsale/orders/feed"
	"flashsale/orders/httpapi"
	"flashsale/orders/store"
)

// A pageOf changes is an answer of GET /v1/admin/changes.
type pageOf[C any] struct {
	Changes []C
	Next    string
}

// read requests a page. If there is nothing new, the server holds its answer for up to 20 s.
func read[C any](ctx context.Context, shop, token, after string, p *pageOf[C]) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, shop+"/v1/admin/changes?after="+after, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Prefer", "wait=20")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("read the feed: %s", answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(p)
}

const schema = `
CREATE TABLE orders (id TEXT PRIMARY KEY, status TEXT NOT NULL);
CREATE TABLE parcels (order_id TEXT PRIMARY KEY, sent INT NOT NULL DEFAULT 0);
CREATE TABLE progress (cursor TEXT NOT NULL);
INSERT INTO progress VALUES ('');`

type change struct {
	Kind  string
	Order struct{ ID, Status string }
}

// effects are the effects of a change: ?1 is an order, ?2 its state. A repetition has none.
var effects = map[string][]string{"order": {
	"INSERT INTO orders VALUES (?1, ?2) ON CONFLICT DO UPDATE SET status = ?2",
	"INSERT INTO parcels (order_id) SELECT ?1 WHERE ?2 = 'paid' ON CONFLICT DO NOTHING",
	"DELETE FROM parcels WHERE order_id = ?1 AND ?2 <> 'paid' AND NOT sent", // an operator has taken the order back
}}

// consume reads a page, and commits the effects of its changes together with the cursor.
func consume(ctx context.Context, db *sql.DB, shop, token string) error {
	var cursor string
	if err := db.QueryRowContext(ctx, "SELECT cursor FROM progress").Scan(&cursor); err != nil {
		return err
	}
	var page pageOf[change]
	if err := read(ctx, shop, token, cursor, &page); err != nil {
		return err // call consume again
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, c := range page.Changes {
		for _, effect := range effects[c.Kind] {
			if _, err := tx.ExecContext(ctx, effect, c.Order.ID, c.Order.Status); err != nil {
				return err
			}
		}
	}
	moved, err := tx.ExecContext(ctx, "UPDATE progress SET cursor = ? WHERE cursor = ?", page.Next, cursor)
	if err != nil {
		return err
	}
	if n, err := moved.RowsAffected(); n == 0 {
		return err // another process has consumed the page
	}
	return tx.Commit()
}

// relay publishes a page, and returns the cursor after it. send returns when the broker has stored
// the message. A message that is sent again has the same id.
func relay(ctx context.Context, shop, token, cursor string, send func(id string, body []byte) error) (next string, err error) {
	var page pageOf[json.RawMessage]
	if err := read(ctx, shop, token, cursor, &page); err != nil {
		return cursor, err
	}
	for _, body := range page.Changes {
		var c struct {
			No    int64
			Order struct{ ID string }
			Sale  struct{ SKU string }
		}
		if err := json.Unmarshal(body, &c); err != nil {
			return cursor, err
		}
		if err := send(c.Order.ID+c.Sale.SKU+"."+strconv.FormatInt(c.No, 10), body); err != nil {
			return cursor, err
		}
	}
	return page.Next, nil
}

// The orders of ann and bob.
const anns, bobs = "00000000-0000-7000-8000-00000000000a", "00000000-0000-7000-8000-00000000000b"

// openShop starts a shop with a feed. It has the sale S, and the orders of ann and bob.
func openShop() (url string, st *store.Store, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stores, err := servers.StartEmbedded(ctx)
	if err == nil {
		st, err = store.Open(stores.SQL, store.Config{})
	}
	if err == nil {
		_, err = st.Migrate(ctx)
	}
	now := time.Now().UTC()
	if err == nil {
		_, err = st.PutSale(ctx, orders.Sale{
			SKU: "S", Name: "Sneaker", Currency: "EUR", Total: 10, UnitsPerBuyer: 1, PaymentWindowS: 900,
			OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour), ReserveOn: orders.OnOrder,
		})
	}
	for id, buyer := range map[string]string{anns: "ann", bobs: "bob"} {
		if err == nil {
			err = st.DB.Create(&orders.Order{
				ID: id, SKU: "S", Buyer: buyer, Quantity: 1, Currency: "EUR", Status: orders.PendingPayment, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
			}).Error
		}
	}
	if err == nil {
		err = st.DB.Exec("UPDATE sales SET sold = 2").Error
	}
	if err != nil {
		panic(err)
	}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	f := feed.New(feed.Config{Store: st, Log: slog.New(slog.DiscardHandler)})
	list := httpapi.ListChanges(f)
	engine.GET("/v1/admin/changes", func(c *gin.Context) {
		if err := list(c); err != nil {
			c.AbortWithStatus(http.StatusServiceUnavailable)
		}
	})
	server := httptest.NewServer(engine)
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }()
	return server.URL, st, func() { cancel(); <-ended; server.Close(); _ = st.Close(); _ = stores.Close() }
}

// openWarehouse opens the database of a consumer.
func openWarehouse(ctx context.Context) *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err == nil {
		db.SetMaxOpenConns(1) // every connection would have a database of its own
		_, err = db.ExecContext(ctx, schema)
	}
	if err != nil {
		panic(err)
	}
	return db
}

// A warehouse packs a parcel for each paid order.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shop, st, stop := openShop()
	defer stop()
	db := openWarehouse(ctx)
	defer func() { _ = db.Close() }()
	// until consumes pages until the warehouse has n orders of this status.
	until := func(n int, status string) {
		for found := -1; found != n; {
			err := consume(ctx, db, shop, "TOKEN")
			if err := errors.Join(err, db.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders WHERE status = ?", status).Scan(&found)); err != nil {
				panic(err)
			}
		}
		var parcels, sent int
		_ = db.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(SUM(sent), 0) FROM parcels").Scan(&parcels, &sent)
		fmt.Printf("%d %s: %d parcels, %d sent\n", n, status, parcels, sent)
	}
	until(2, "pending_payment")
	_, _ = st.Pay(ctx, "ann", anns, "p-1")
	_, _ = st.Pay(ctx, "bob", bobs, "p-2")
	until(2, "paid")
	// The parcel of ann is sent. An operator takes the order of bob back.
	_, _ = db.ExecContext(ctx, "UPDATE parcels SET sent = 1 WHERE order_id = ?", anns)
	st.DB.Exec("UPDATE orders SET status = 'cancelled', change_no = NULL WHERE id = ?", bobs)
	until(1, "cancelled")
	// The warehouse restores a backup of its cursor, and reads everything again.
	_, _ = db.ExecContext(ctx, "UPDATE progress SET cursor = ''")
	until(1, "paid")
	// Output:
	// 2 pending_payment: 0 parcels, 0 sent
	// 2 paid: 2 parcels, 0 sent
	// 1 cancelled: 1 parcels, 1 sent
	// 1 paid: 1 parcels, 1 sent
}

// A relay publishes the feed to a message broker. It fails once in the middle of a page, and begins
// the page again. The broker ignores a message whose id it has.
func Example_relay() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shop, _, stop := openShop()
	defer stop()
	stored, failures := map[string]string{}, 1
	send := func(id string, body []byte) error {
		if len(stored) == 1 && failures > 0 {
			failures--
			return errors.New("the broker is away")
		}
		stored[id] = string(body)
		return nil
	}
	cursor := ""
	for len(stored) < 3 {
		next, err := relay(ctx, shop, "TOKEN", cursor, send)
		if err != nil {
			fmt.Println(err)
		}
		cursor = next // save the cursor before the next call
	}
	fmt.Println("messages:", len(stored))
	// Output:
	// the broker is away
	// messages: 3
}
