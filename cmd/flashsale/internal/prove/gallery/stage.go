package gallery

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
)

// A stage is a variant on empty stores. It runs in a process that can be killed,
// and reaches its stores by wires that can fail.
type stage struct {
	*lab.Lab
	variant variants.Variant
	direct  variants.Stores // connections that bypass the wires
	node    *lab.Node
	sku     string // SKU of the current trial's sale
}

// openStage starts the variant.
func openStage(ctx context.Context, cfg Config, v variants.Variant, stores *servers.Stores) (_ *stage, err error) {
	s := &stage{variant: v}
	if s.Lab, err = lab.NewWithStores(cfg.Config, stores); err != nil {
		return nil, err
	}
	defer lab.CloseOnError(&err, s.Close)
	if s.direct, err = variants.Connect(stores.RedisURL, stores.SQL); err != nil {
		return nil, err
	}
	s.Cleanup(s.direct.Close)
	node := lab.NodeConfig{Name: v.Name, Strategy: v.Name, Wires: true}
	if v.Name == ours {
		node.Strategy = variants.Lua
		node.Flags = slices.Concat(lab.Unlimited, lab.ShortTimeouts(time.Second, 10*time.Second), []string{"--trusted-proxies", "127.0.0.1", "--max-quantity", "10"})
	}
	s.node, err = s.StartNode(ctx, node)
	return s, err
}

// count returns how many orders are stored, and how many of them are cancelled.
// The query fits the tables of the gallery and of the real service.
func (s *stage) count(ctx context.Context) (stored, cancelled int) {
	var n sql.NullInt64
	_ = s.direct.DB.QueryRowContext(ctx, "SELECT COUNT(*), SUM(CASE status WHEN 'cancelled' THEN 1 ELSE 0 END) FROM orders WHERE sku = ?", s.sku).Scan(&stored, &n)
	return stored, int(n.Int64)
}
