package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm/clause"

	"flashsale/inventory"
)

// A Node says that it is there by one row, on the database's clock: what the
// nodes' own clocks say makes no difference.
type Node struct {
	ID         string `gorm:"primaryKey"`
	SeenAt     time.Time
	Unwritable string // the masters that do not take the node's writes: ",a,b,", or "" for none
	Barrier    int64  // counts the node's barriers
	Stats      string // what Config.Stats said at the last heartbeat
}

// TableName is for gorm.
func (Node) TableName() string { return "nodes" }

// maxStats is the room for Stats in a row, bytes. Longer ones are left out.
const maxStats = 8000

// maxUnwritable is the room for names in a row, bytes. A node with more of them
// says that it writes to none.
const maxUnwritable = 2000

func nameList(names []string) string {
	list := "," + strings.Join(names, ",") + ","
	switch {
	case len(names) == 0:
		return ""
	case len(list) > maxUnwritable:
		return "," + inventory.Standalone + ","
	}
	return list
}

// Writes tells whether the node writes to a master.
func (h *Node) Writes(master string) bool {
	return !strings.Contains(h.Unwritable, ","+master+",") && !strings.Contains(h.Unwritable, ","+inventory.Standalone+",")
}

// forgetNodeAfter is after how long the row of a node that died is taken away.
const forgetNodeAfter = time.Hour

// Beat writes the node's row, drops the rows of nodes long gone, and returns
// the rows of the nodes that are alive, by id, this one's among them: those seen
// within alive, without their stats. A row from the future is no sign of life, for the database's
// clock was set back since. Each statement stands for itself: nodes that held
// their own row while they looked at the others' would lock each other out.
func (s *Store) Beat(ctx context.Context, node string, unwritable []string, alive time.Duration) ([]Node, error) {
	db := s.DB.WithContext(ctx)
	now, err := s.clock(db)
	if err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", node, err)
	}
	row := Node{ID: node, SeenAt: now, Unwritable: nameList(unwritable)}
	if s.stats != nil {
		if row.Stats = s.stats(); len(row.Stats) > maxStats {
			row.Stats = ""
		}
	}
	update := clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"seen_at", "unwritable", "stats"})}
	if err := db.Clauses(update).Create(&row).Error; err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", node, err)
	}
	var rows []Node
	if err := db.Omit("stats").Order("id").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", node, err)
	}
	var gone []string
	rows = slices.DeleteFunc(rows, func(r Node) bool {
		age := now.Sub(r.SeenAt)
		if age > forgetNodeAfter {
			gone = append(gone, r.ID)
		}
		return age.Abs() >= alive
	})
	if len(gone) > 0 {
		if err := db.Where("id IN ? AND seen_at < ?", gone, now.Add(-forgetNodeAfter)).Delete(&Node{}).Error; err != nil {
			return nil, fmt.Errorf("heartbeat of %s: drop old rows: %w", node, err)
		}
	}
	return rows, nil
}

// Nodes returns the rows, stats included, of the nodes seen within alive, by id.
func (s *Store) Nodes(ctx context.Context, alive time.Duration) ([]Node, error) {
	db := s.DB.WithContext(ctx)
	now, err := s.clock(db)
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	var rows []Node
	err = db.Where("seen_at > ? AND seen_at < ?", now.Add(-alive), now.Add(alive)).Order("id").Find(&rows).Error
	return rows, wrap(err, "read the nodes")
}

// Leave takes the node's row away: the others need not wait for it to grow old.
func (s *Store) Leave(ctx context.Context, node string) error {
	return wrap(s.DB.WithContext(ctx).Delete(&Node{ID: node}).Error, "leave as %s", node)
}

// Vacate removes the keeper's name from the row of sku, if it still has that fence.
func (s *Store) Vacate(ctx context.Context, sku string, fence int64) error {
	err := s.DB.WithContext(ctx).Exec("UPDATE sales SET keeper = '' WHERE sku = ? AND fence = ?", sku, fence).Error
	return wrap(err, "vacate %s", sku)
}
