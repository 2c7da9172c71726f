package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// model is the gate as anybody would write it who had one thread, no Redis and
// no crashes: what the real one must be indistinguishable from.
type model struct {
	exists, open bool
	epoch        int64
	terms        Terms
	available    int64
	holds        map[string]Hold
	buyers       map[string]int64     // units held or paid
	paid         map[string]int64     // of those, confirmed: no hold any more
	keys         map[[2]string]Queued // buyer and key, of what is queued
	queue        []Queued
	bound        int
	entry        int // orders in an entry of the queue, at most
	granted      int64
	coolingDown  bool // units have come to an empty gate
}

func newModel(bound, entry int) *model {
	return &model{
		holds: map[string]Hold{}, buyers: map[string]int64{}, paid: map[string]int64{},
		keys: map[[2]string]Queued{}, bound: bound, entry: entry,
	}
}

// An answer is what Reserve may say.
type answer struct {
	id       string
	replayed bool
	at       time.Time // of an order known before, zero otherwise
	reason   error
	known    bool
}

func (m *model) reserve(r Request, now time.Time) answer {
	_, known := m.buyers[r.Buyer]
	no := func(reason error) answer { return answer{reason: reason, known: known} }
	earlier, replay := m.keys[[2]string{r.Buyer, r.Key}]
	hold, held := m.holds[r.OrderID]
	switch {
	case !m.exists:
		return answer{reason: ErrNoGate}
	case !m.open:
		return answer{reason: ErrRebuilding}
	case r.OrderID == "" || strings.Contains(r.OrderID, " ") || r.Buyer == "" || r.Quantity < 1:
		return no(ErrInvalid)
	case r.Key != "" && replay && earlier.Fingerprint != r.Fingerprint:
		return no(ErrMismatch)
	case r.Key != "" && replay && earlier.OrderID != r.OrderID:
		return answer{id: earlier.OrderID, replayed: true}
	case r.Key != "" && replay, held:
		return answer{id: r.OrderID, at: hold.At}
	case now.Before(m.terms.OpensAt):
		return no(ErrNotOpen)
	case !now.Before(m.terms.ClosesAt):
		return no(ErrClosed)
	case r.Quantity > m.terms.PerBuyer-m.buyers[r.Buyer]:
		return no(ErrBuyerLimit)
	case m.coolingDown, r.Quantity > m.available:
		return no(ErrSoldOut)
	case len(m.queue) >= m.bound:
		return no(ErrBusy)
	}
	h := Hold{OrderID: r.OrderID, Buyer: r.Buyer, Quantity: r.Quantity}
	m.available -= r.Quantity
	m.buyers[r.Buyer] += r.Quantity
	m.holds[r.OrderID] = h
	m.granted++
	q := Queued{OrderID: r.OrderID, Buyer: r.Buyer, Quantity: r.Quantity, Key: r.Key, Fingerprint: r.Fingerprint, Node: r.Node, Epoch: m.epoch}
	m.queue = append(m.queue, q)
	if r.Key != "" {
		m.keys[[2]string{r.Buyer, r.Key}] = q
	}
	return answer{id: r.OrderID}
}

// reservedAt takes over the time that Redis's clock gave an order.
func (m *model) reservedAt(id string, at time.Time) {
	h, ok := m.holds[id]
	if !ok || !h.At.IsZero() {
		return // the order itself, seen again
	}
	h.At = at
	m.holds[id] = h
	for i := range m.queue {
		if m.queue[i].OrderID == id && m.queue[i].At.IsZero() {
			m.queue[i].At = at
		}
	}
}

// admit is what the scripts that are true of one gate only do first.
func (m *model) admit(epoch int64) error {
	if !m.exists {
		return ErrNoGate
	}
	if epoch != m.epoch {
		return ErrEpoch
	}
	return nil
}

// come brings units to the gate.
func (m *model) come(units int64) {
	m.coolingDown = m.coolingDown || m.available <= 0 && m.available+units > 0
	m.available += units
}

func (m *model) giveBack(id string) int64 {
	h, ok := m.holds[id]
	if !ok {
		return 0
	}
	delete(m.holds, id)
	m.come(h.Quantity)
	m.buyers[h.Buyer] -= h.Quantity
	return h.Quantity
}

func (m *model) release(epoch int64, ids []string) (units int64, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	if err := m.admit(epoch); err != nil {
		return 0, err
	}
	for _, id := range ids {
		units += m.giveBack(id)
	}
	return units, nil
}

func (m *model) confirm(epoch int64, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := m.admit(epoch); err != nil {
		return err
	}
	for _, id := range ids {
		if h, ok := m.holds[id]; ok {
			m.paid[h.Buyer] += h.Quantity
			delete(m.holds, id)
		}
	}
	return nil
}

func (m *model) ack(orders []Queued, release []string) {
	for _, id := range release {
		m.giveBack(id)
	}
	for from, o := range orders {
		if from > 0 && orders[from-1].Entry == o.Entry {
			continue // judged together with that one
		}
		var judged, queued []string
		for _, o := range orders[from:] {
			if o.Entry != orders[from].Entry {
				break
			}
			judged = append(judged, o.OrderID)
		}
		for _, q := range m.queue {
			if q.Entry == o.Entry {
				queued = append(queued, q.OrderID)
			}
		}
		if slices.Equal(judged, queued) {
			m.queue = slices.DeleteFunc(m.queue, func(q Queued) bool {
				if at := [2]string{q.Buyer, q.Key}; q.Entry == o.Entry && m.keys[at].OrderID == q.OrderID {
					delete(m.keys, at)
				}
				return q.Entry == o.Entry
			})
		}
	}
}

// entries is the queue, cut into its entries.
func (m *model) entries() (entries [][]Queued) {
	for i, q := range m.queue {
		if i == 0 || q.Entry != m.queue[i-1].Entry {
			entries = append(entries, nil)
		}
		entries[len(entries)-1] = append(entries[len(entries)-1], q)
	}
	return entries
}

func (m *model) read(after string, limit int) (orders []Queued) {
	for _, entry := range m.entries() {
		if after != "" && compareEntries(entry[0].Entry, after) <= 0 {
			continue
		}
		if len(orders) > 0 && len(orders)+len(entry) > limit {
			break
		}
		orders = append(orders, entry...)
	}
	return orders
}

func (m *model) setTerms(epoch int64, t Terms) error {
	if err := m.admit(epoch); err != nil {
		return err
	}
	m.come(t.Total - m.terms.Total)
	m.terms = t
	return nil
}

func (m *model) shut(epoch int64) {
	if m.exists && m.epoch == epoch {
		m.open = false
	}
}

// truth is what a database would say: some of the open orders have been closed
// meanwhile.
func (m *model) truth(closed func(id string) bool) truth {
	s := truth{Terms: m.terms, Available: m.terms.Total, Buyers: map[string]int64{}}
	for buyer := range m.buyers {
		s.Buyers[buyer] = m.paid[buyer]
		s.Available -= m.paid[buyer]
	}
	for _, id := range slices.Sorted(maps.Keys(m.holds)) {
		if h := m.holds[id]; !closed(id) {
			s.Holds = append(s.Holds, h)
			s.Buyers[h.Buyer] += h.Quantity
			s.Available -= h.Quantity
		}
	}
	return s
}

func (m *model) install(was, epoch int64, s truth) bool {
	if m.open || was != m.epoch {
		return false
	}
	m.exists, m.open, m.epoch, m.granted, m.queue = true, true, epoch, 0, nil
	m.terms, m.available = s.Terms, s.Available
	m.buyers = maps.Clone(s.Buyers)
	m.holds = map[string]Hold{}
	clear(m.keys)
	for _, h := range s.Holds {
		m.holds[h.OrderID] = h
	}
	return true
}

// law is what must hold after every step, whatever it was.
func (m *model) law() error {
	if !m.exists {
		return nil
	}
	sum, counts := m.available, int64(0)
	for _, h := range m.holds {
		sum += h.Quantity
	}
	for _, n := range m.paid {
		sum += n
	}
	for _, n := range m.buyers {
		counts += n
	}
	if sum != m.terms.Total || counts != m.terms.Total-m.available {
		return fmt.Errorf("%d available, %d by holds and payments, %d by buyers, of %d in total", m.available, sum, counts, m.terms.Total)
	}
	return nil
}

// dump is the model as state() shows Redis.
func (m *model) dump(sku string) string {
	sale := map[string]string{}
	if m.exists {
		sale["state"] = map[bool]string{true: "open", false: "rebuilding"}[m.open]
		for field, n := range map[string]int64{
			"epoch": m.epoch, "total": m.terms.Total, "available": m.available, "per_buyer": m.terms.PerBuyer,
			"opens_at": m.terms.OpensAt.UnixMilli(), "closes_at": m.terms.ClosesAt.UnixMilli(), "granted": m.granted,
			"queued": int64(len(m.queue)), // and resume_at and built_on, which are looked at apart
		} {
			sale[field] = fmt.Sprint(n)
		}
	}
	holds, buyers, names := map[string]string{}, map[string]string{}, map[string]string{}
	for id, h := range m.holds {
		holds[id] = fmt.Sprintf("%d %d %s", h.Quantity, h.At.UnixMilli(), h.Buyer)
	}
	if m.exists {
		buyers[""] = "0" // install.lua's mark
	}
	for buyer, n := range m.buyers {
		buyers[buyer] = fmt.Sprint(n)
	}
	for _, q := range m.keys {
		names[fmt.Sprintf("%d:%s/%s", len(q.Buyer), q.Buyer, q.Key)] = q.OrderID + " " + q.Fingerprint
	}
	var b strings.Builder
	fmt.Fprintf(&b, " %s\n:holds %s\n:buyers %s\n:keys %s\n", sorted(sale), sorted(holds), sorted(buyers), sorted(names))
	for _, entry := range m.entries() {
		b.WriteString(entry[0].Entry + " epoch")
		for _, q := range entry {
			b.WriteString(" " + q.OrderID)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func sorted(all map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%q=%q ", name, all[name])
	}
	return b.String()
}

// compare tells how an answer of the gate differs from the model's.
func (want answer) compare(got Reservation, err error) error {
	if want.reason != nil {
		var refusal *Refusal
		if !errors.As(err, &refusal) || !errors.Is(err, want.reason) || refusal.Known != want.known {
			return fmt.Errorf("got %+v, %#v; want %v, known %v", got, err, want.reason, want.known)
		}
		return nil
	}
	switch {
	case err != nil, got.OrderID != want.id, got.Replayed != want.replayed, got.At.IsZero() != want.replayed:
		return fmt.Errorf("got %+v, %v; want %+v", got, err, want)
	case !want.at.IsZero() && !got.At.Equal(want.at):
		return fmt.Errorf("got %v, the order is of %v", got.At, want.at)
	}
	return nil
}
