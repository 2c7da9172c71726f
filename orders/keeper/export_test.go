package keeper

import (
	"context"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/store"
)

// What tests of single steps reach for.

const (
	Confirmations = confirmations
	UnitsTooMany  = unitsTooMany
	FewOrders     = fewOrders
)

func (k *Keeper) CommitBatch(ctx context.Context, batch []inventory.Queued) ([]orders.Decision, error) {
	return k.commit(ctx, batch)
}

func (k *Keeper) AckBatch(ctx context.Context, batch []inventory.Queued, decisions []orders.Decision) error {
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

func (k *Keeper) Hear(tell func(context.Context, []orders.Decision)) { k.tell = tell }

func (k *Keeper) BeginScan() { k.scan = newScan() }

func (k *Keeper) ScanAt() int { return k.scan.walk }

func (k *Keeper) Suspect(symptom string, times int) { k.symptom, k.confirmed = symptom, times }

func (k *Keeper) Counters() *Counters { return k.count }

// Suspected is what the last comparison found, and how often in a row.
func (k *Keeper) Suspected() (symptom string, times, off int) {
	return k.symptom, k.confirmed, len(k.orders) + len(k.buyers)
}
