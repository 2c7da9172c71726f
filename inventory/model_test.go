package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A model is the gate written for one thread, without Redis and without crashes. The real
// gate must behave in the same way.
type model struct {
	exists, open bool
	epoch        int64
	terms        Terms
	available    int64
	holds        map[string]Hold
	buyers       map[string]int64          // units held or paid
	paid         map[string]int64          // units paid: no longer in holds
	keys         map[[2]string]QueuedOrder // queued orders by buyer and key
	queue        []QueuedOrder
	bound        int
	entry        int // largest number of orders in an entry of the queue
	granted      int64
	coolingDown  bool // units have been released to an empty gate
}

func newModel(bound, entry int) *model {
	return &model{
		holds: map[string]Hold{}, buyers: map[string]int64{}, paid: map[string]int64{},
		keys: map[[2]string]QueuedOrder{}, bound: bound, entry: entry,
	}
}

// An answer is a possible result of Reserve.
type answer struct {
	id       string
	replayed bool
	at       time.Time // acceptance time of a known order, zero otherwise
	reason   error
	known    bool
}

func (m *model) reserve(r Request, now time.Time) answer {
	_, known := m.buyers[r.Buyer]
	refuse := func(reason error) answer { return answer{reason: reason, known: known} }
	earlier, replay := m.keys[[2]string{r.Buyer, r.Key}]
	hold, held := m.holds[r.OrderID]
	switch {
	case !m.exists:
		return answer{reason: ErrNoGate}
	case !m.open:
		return answer{reason: ErrRebuilding}
	case r.OrderID == "" || strings.Contains(r.OrderID, " ") || r.Buyer == "" || r.Quantity < 1:
		return refuse(ErrInvalid)
	case r.Key != "" && replay && earlier.Fingerprint != r.Fingerprint:
		return refuse(ErrMismatch)
	case r.Key != "" && replay && earlier.OrderID != r.OrderID:
		return answer{id: earlier.OrderID, replayed: true}
	case r.Key != "" && replay, held:
		return answer{id: r.OrderID, at: hold.AcceptedAt}
	case now.Before(m.terms.OpensAt):
		return refuse(ErrNotOpen)
	case !now.Before(m.terms.ClosesAt):
		return refuse(ErrClosed)
	case r.Quantity > m.terms.UnitsPerBuyer-m.buyers[r.Buyer]:
		return refuse(ErrBuyerLimit)
	case m.coolingDown, r.Quantity > m.available:
		return refuse(ErrSoldOut)
	case len(m.queue) >= m.bound:
		return refuse(ErrBusy)
	}
	h := Hold{OrderID: r.OrderID, Buyer: r.Buyer, Quantity: r.Quantity}
	m.available -= r.Quantity
	m.buyers[r.Buyer] += r.Quantity
	m.holds[r.OrderID] = h
	m.granted++
	q := QueuedOrder{OrderID: r.OrderID, Buyer: r.Buyer, Quantity: r.Quantity, Key: r.Key, Fingerprint: r.Fingerprint, Node: r.Node, Epoch: m.epoch}
	m.queue = append(m.queue, q)
	if r.Key != "" {
		m.keys[[2]string{r.Buyer, r.Key}] = q
	}
	return answer{id: r.OrderID}
}

// reservedAt records the acceptance time of an order, which Redis's clock sets.
func (m *model) reservedAt(id string, at time.Time) {
	h, ok := m.holds[id]
	if !ok || !h.AcceptedAt.IsZero() {
		return // the order is known already
	}
	h.AcceptedAt = at
	m.holds[id] = h
	for i := range m.queue {
		if m.queue[i].OrderID == id && m.queue[i].AcceptedAt.IsZero() {
			m.queue[i].AcceptedAt = at
		}
	}
}

// admit is the check at the start of scripts that are valid for one gate only.
func (m *model) admit(epoch int64) error {
	if !m.exists {
		return ErrNoGate
	}
	if epoch != m.epoch {
		return ErrEpoch
	}
	return nil
}

// add adds units to the available ones.
func (m *model) add(units int64) {
	m.coolingDown = m.coolingDown || m.available <= 0 && m.available+units > 0
	m.available += units
}

func (m *model) releaseUnits(id string) int64 {
	h, ok := m.holds[id]
	if !ok {
		return 0
	}
	delete(m.holds, id)
	m.add(h.Quantity)
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
		units += m.releaseUnits(id)
	}
	return units, nil
}

func (m *model) dropHolds(epoch int64, ids []string) error {
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

func (m *model) ack(orders []QueuedOrder, release []string) {
	for _, id := range release {
		m.releaseUnits(id)
	}
	for from, o := range orders {
		if from > 0 && orders[from-1].Entry == o.Entry {
			continue // decided together with the previous order
		}
		var decided, queued []string
		for _, o := range orders[from:] {
			if o.Entry != orders[from].Entry {
				break
			}
			decided = append(decided, o.OrderID)
		}
		for _, q := range m.queue {
			if q.Entry == o.Entry {
				queued = append(queued, q.OrderID)
			}
		}
		if slices.Equal(decided, queued) {
			m.queue = slices.DeleteFunc(m.queue, func(q QueuedOrder) bool {
				if at := [2]string{q.Buyer, q.Key}; q.Entry == o.Entry && m.keys[at].OrderID == q.OrderID {
					delete(m.keys, at)
				}
				return q.Entry == o.Entry
			})
		}
	}
}

// entries returns the queue, split into its entries.
func (m *model) entries() (entries [][]QueuedOrder) {
	for i, q := range m.queue {
		if i == 0 || q.Entry != m.queue[i-1].Entry {
			entries = append(entries, nil)
		}
		entries[len(entries)-1] = append(entries[len(entries)-1], q)
	}
	return entries
}

func (m *model) read(after string, limit int) (orders []QueuedOrder) {
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
	m.add(t.Total - m.terms.Total)
	m.terms = t
	return nil
}

func (m *model) shut(epoch int64) {
	if m.exists && m.epoch == epoch {
		m.open = false
	}
}

// truth returns the state of the database, in which some open orders have been closed.
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

// law checks the conservation of units, which holds after every step.
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
		return fmt.Errorf("model: got %d available, %d by holds and payments, %d by buyers, want all to agree on a total of %d",
			m.available, sum, counts, m.terms.Total)
	}
	return nil
}

// dump returns the model in the format of state.
func (m *model) dump(sku string) string {
	sale := map[string]string{}
	if m.exists {
		sale["state"] = map[bool]string{true: "open", false: "rebuilding"}[m.open]
		for field, n := range map[string]int64{
			"epoch": m.epoch, "total": m.terms.Total, "available": m.available, "per_buyer": m.terms.UnitsPerBuyer,
			"opens_at": m.terms.OpensAt.UnixMilli(), "closes_at": m.terms.ClosesAt.UnixMilli(), "granted": m.granted,
			"queued": int64(len(m.queue)), // resume_at and built_on are checked separately
		} {
			sale[field] = fmt.Sprint(n)
		}
	}
	holds, buyers, names := map[string]string{}, map[string]string{}, map[string]string{}
	for id, h := range m.holds {
		holds[id] = fmt.Sprintf("%d %d %s", h.Quantity, h.AcceptedAt.UnixMilli(), h.Buyer)
	}
	if m.exists {
		buyers[""] = "0" // marker of install.lua
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

// compare returns an error if the gate's answer differs from want.
func (want answer) compare(got Reservation, err error) error {
	if want.reason != nil {
		var refusal *Refusal
		if !errors.As(err, &refusal) || !errors.Is(err, want.reason) || refusal.KnowsBuyer != want.known {
			return fmt.Errorf("reservation: got %+v, error %#v, want refusal %v, known %v", got, err, want.reason, want.known)
		}
		return nil
	}
	switch {
	case err != nil, got.OrderID != want.id, got.Replayed != want.replayed, got.AcceptedAt.IsZero() != want.replayed:
		return fmt.Errorf("reservation: got %+v, error %v, want the order %+v", got, err, want)
	case !want.at.IsZero() && !got.AcceptedAt.Equal(want.at):
		return fmt.Errorf("reservation: got the acceptance time %v, want %v of the order", got.AcceptedAt, want.at)
	}
	return nil
}
