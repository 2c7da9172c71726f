package keeper

import (
	"context"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/store"
)

// Access to single steps, for the tests of package keeper_test.

const (
	SightingsToRebuild = sightingsToRebuild
	UnitsTooMany       = unitsTooMany
	FewOrders          = fewOrders
)

func (k *Keeper) CommitBatch(ctx context.Context, batch []inventory.QueuedOrder) ([]orders.Decision, error) {
	return k.commit(ctx, batch)
}

func (k *Keeper) AckBatch(ctx context.Context, batch []inventory.QueuedOrder, decisions []orders.Decision) error {
	return k.ack(ctx, batch, decisions).err
}

// RebuildGate announces the end of the epoch and rebuilds the gate at once.
func (k *Keeper) RebuildGate(ctx context.Context) error {
	sale, err := k.store.Sale(ctx, k.sku)
	if err == nil && sale.Mode == orders.ModeGate {
		err = k.store.Announce(ctx, k.sku, sale.Epoch)
	}
	if err != nil {
		return err
	}
	return k.rebuild(ctx, sale)
}

func (k *Keeper) Use(s *store.Store, g Gate) { k.store, k.gate = s, g }

func (k *Keeper) SetBatch(n int) { k.batch = n }

func (k *Keeper) SetNotify(notify func(context.Context, []orders.Decision)) { k.notify = notify }

func (k *Keeper) BeginScan() { k.scan = newScan() }

func (k *Keeper) ScanWalk() int { return k.scan.walk }

func (k *Keeper) SetSymptom(symptom string, times int) { k.symptom, k.sightings = symptom, times }

func (k *Keeper) Counters() *Counters { return k.counters }

// Symptom returns the symptom of the last comparison, the number of consecutive comparisons
// that found it, and the number of wrong orders and buyers.
func (k *Keeper) Symptom() (symptom string, times, wrong int) {
	return k.symptom, k.sightings, len(k.orders) + len(k.buyers)
}
