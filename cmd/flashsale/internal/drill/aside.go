package drill

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the drill's own look at the database
	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/api"
)

// An aside is a second sale on the same nodes, beside the one under attack:
// there a drill knows every order, and can lead it to the very moment that a
// guard is for. It looks into both stores itself, past the nodes.
type aside struct {
	*stage
	sku      string
	terms    api.Terms
	operator *api.Client
	redis    *redis.Client
	mysql    *sql.DB
	buyers   int // so far
}

// asideWindow is for orders of it that are not to expire.
const asideWindow = 15 * time.Minute

// lookAt opens a look at a sale that is there.
func (s *stage) lookAt(sku string) (*aside, error) {
	token, err := s.verifier.Sign("drill", true, time.Hour)
	if err != nil {
		return nil, err
	}
	operator, err := api.New(s.balancer.URL(), token)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("mysql", s.stores.SQL)
	if err != nil {
		return nil, err
	}
	return &aside{stage: s, sku: sku, operator: operator, redis: client(s.stores.Redis.Addr()), mysql: db}, nil
}

// openAside puts a sale on the stage and waits until it sells.
func (s *stage) openAside(ctx context.Context, total int64, window time.Duration) (*aside, error) {
	a, err := s.lookAt("aside")
	if err != nil {
		return nil, err
	}
	a.terms = api.Terms{
		Name: "Aside", Price: 100, Currency: "EUR", PerBuyerLimit: 1,
		OpensAt: time.Now().Add(-time.Hour), ClosesAt: time.Now().Add(24 * time.Hour),
		PaymentWindowS: int64(window / time.Second),
	}
	if err := a.putUntil(ctx, total); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *aside) close() {
	_, _ = a.redis.Close(), a.mysql.Close()
}

// put has so many units on sale, in both stores.
func (a *aside) put(ctx context.Context, total int64) error {
	a.terms.Total = total
	_, err := a.operator.Put(ctx, a.sku, a.terms)
	return err
}

// putUntil does so until the gate has it: the node that keeps the sale may be
// paused or busy, and the change is brought by whoever keeps it then.
func (a *aside) putUntil(ctx context.Context, total int64) error {
	return a.until(ctx, "the sale aside is at the gate", func(ctx context.Context) bool {
		return a.put(ctx, total) == nil && a.gate(ctx, "total") == total
	})
}

// key names what the gate has of the sale: "sale:{sku}" and what follows it.
func (a *aside) key(rest string) string { return "sale:{" + a.sku + "}" + rest }
func (a *aside) lock() string           { return "lock:{" + a.sku + "}" }

// gate reads a number of the gate; -1 where it is not there.
func (a *aside) gate(ctx context.Context, field string) int64 {
	n, err := a.redis.HGet(ctx, a.key(""), field).Int64()
	if err != nil {
		return -1
	}
	return n
}

// row reads numbers of the database.
func (a *aside) row(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = a.mysql.QueryRowContext(ctx, query, args...).Scan(&n)
	if err != nil {
		err = fmt.Errorf("look into the database: %w", err)
	}
	return n, err
}

func (a *aside) count(ctx context.Context, where string) (int64, error) {
	return a.row(ctx, "SELECT COUNT(*) FROM orders WHERE sku = ? AND "+where, a.sku)
}

func (a *aside) fence(ctx context.Context) (int64, error) {
	return a.row(ctx, "SELECT fence FROM sales WHERE sku = ?", a.sku)
}

func (a *aside) epoch(ctx context.Context) (int64, error) {
	return a.row(ctx, "SELECT epoch FROM sales WHERE sku = ?", a.sku)
}

// balanced looks whether the units of the sale add up once nothing is on its
// way, and whether they did so without being put right: no store lost or
// invented anything, so nothing was there to be repaired.
func (a *aside) balanced(ctx context.Context, epoch int64) error {
	var last api.Audit
	err := a.until(ctx, "the sale aside is at rest", func(ctx context.Context) bool {
		audit, err := a.operator.Audit(ctx, a.sku)
		same := err == nil && audit == last
		last = audit
		return same && audit.Held == 0 && audit.Restoring == 0
	})
	if err != nil {
		return err
	}
	if !last.Balanced {
		a.broke("drift: of the %d units beside the attack %d are available and %d sold", last.Total, last.Available, last.Sold)
	}
	now, err := a.epoch(ctx)
	if err == nil && now != epoch {
		a.broke("drift: the gate beside the attack had to be repaired, though no store had lost anything")
	}
	return err
}

// A buyer of the sale aside, with one order.
type placed struct {
	ID    string `json:"id"`
	buyer string
}

// buy places an order of one unit by a new buyer and waits until it is durable.
func (a *aside) buy(ctx context.Context) (placed, error) {
	return a.place(ctx, "", http.StatusCreated)
}

// queue is buy that does not wait.
func (a *aside) queue(ctx context.Context) (placed, error) {
	return a.place(ctx, "respond-async", http.StatusAccepted)
}

func (a *aside) place(ctx context.Context, prefer string, want int) (placed, error) {
	a.buyers++
	p := placed{buyer: fmt.Sprint("aside-", a.buyers)}
	err := a.until(ctx, fmt.Sprintf("an order beside the attack is answered %d", want), func(ctx context.Context) bool {
		status, body, err := a.order(ctx, p.buyer, 0, prefer)
		return err == nil && status == want && json.Unmarshal(body, &p) == nil
	})
	return p, err
}

// order asks for one unit, by the buyer's n-th key. The nodes are asked in turn
// and not by the balancer, which books what the attack hears.
func (a *aside) order(ctx context.Context, buyer string, n int, prefer ...string) (int, []byte, error) {
	node := a.nodes[(a.buyers+n)%len(a.nodes)]
	return a.ask(ctx, "http://"+node.Addr(), buyer, "/v1/orders", fmt.Sprintf(`{"sku":%q,"quantity":1}`, a.sku),
		map[string]string{"Idempotency-Key": fmt.Sprint("key-", n), "Prefer": strings.Join(prefer, "")})
}

// buyMany places n of them, durable.
func (a *aside) buyMany(ctx context.Context, n int) (all []placed, err error) {
	for range n {
		p, err := a.buy(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (a *aside) pay(ctx context.Context, p placed) (int, error) {
	status, _, err := a.ask(ctx, a.balancer.URL(), p.buyer, "/v1/orders/"+p.ID+"/pay", fmt.Sprintf(`{"payment_ref":"paid-%s"}`, p.ID), nil)
	return status, err
}

func (a *aside) cancel(ctx context.Context, p placed) (int, error) {
	status, _, err := a.ask(ctx, a.balancer.URL(), p.buyer, "/v1/orders/"+p.ID+"/cancel", "", nil)
	return status, err
}

// ask is one call of a buyer, from an address of the buyer's own.
func (a *aside) ask(ctx context.Context, target, buyer, path, body string, header map[string]string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	token, err := a.verifier.Sign(buyer, false, time.Hour)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", fmt.Sprintf("172.16.%d.%d", a.buyers/250, a.buyers%250+1))
	for name, value := range header {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, answer, err
}

// catchAny waits until one of the nodes' wires has caught something.
func (s *stage) catchAny(ctx context.Context, what string, arm func(n *node) (*wire, *catch)) (*node, *catch, error) {
	wires, catches := make([]*wire, len(s.nodes)), make([]*catch, len(s.nodes))
	for i, n := range s.nodes {
		wires[i], catches[i] = arm(n)
	}
	at := -1
	err := s.until(ctx, what, func(context.Context) bool {
		for i, c := range catches {
			select {
			case <-c.caught:
				at = i
				return true
			default:
			}
		}
		return false
	})
	for i, c := range catches {
		if wires[i].disarm(c); i != at {
			c.drop()
		}
	}
	if at < 0 {
		return nil, nil, errors.Join(err, errors.New("nothing was caught"))
	}
	return s.nodes[at], catches[at], nil
}
