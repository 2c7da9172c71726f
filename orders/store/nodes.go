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

// A Node is a row of the table nodes. Each heartbeat of the node writes it.
type Node struct {
	ID         string    `gorm:"primaryKey"`
	SeenAt     time.Time // last heartbeat, by the database's clock
	Unwritable string    // Redis masters that the node cannot write to: ",a,b,", or "" for none
	Barrier    int64     // number of the node's barriers
	Stats      string    // Config.Stats at the last heartbeat
}

// TableName returns the name of the table, for gorm.
func (Node) TableName() string { return "nodes" }

// maxStats is the maximum length of Stats in bytes. Longer statistics are not stored.
const maxStats = 8000

// maxUnwritable is the maximum length of Unwritable in bytes. If the list is longer, the row
// states that the node cannot write to any master.
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

// CanWrite reports whether the node can write to the given Redis master.
func (n *Node) CanWrite(master string) bool {
	return !strings.Contains(n.Unwritable, ","+master+",") && !strings.Contains(n.Unwritable, ","+inventory.Standalone+",")
}

// forgetNodeAfter is the time after the last heartbeat at which the row of a node is deleted.
const forgetNodeAfter = time.Hour

// Heartbeat writes the heartbeat of node and deletes the rows of nodes that are long gone. It
// returns the rows of the live nodes by id, this node included, without their stats. A node is
// live if its heartbeat is within alive of the database's time. A heartbeat further in the future
// does not count, because the database's clock has been set back since.
//
// Heartbeat uses no transaction. Nodes that kept their own row locked while they delete other rows
// could deadlock.
func (s *Store) Heartbeat(ctx context.Context, node string, unwritable []string, alive time.Duration) ([]Node, error) {
	db := s.DB.WithContext(ctx)
	now, err := s.readTime(db)
	if err != nil {
		return nil, fmt.Errorf("write the heartbeat of %s: %w", node, err)
	}
	row := Node{ID: node, SeenAt: now, Unwritable: nameList(unwritable)}
	if s.stats != nil {
		if row.Stats = s.stats(); len(row.Stats) > maxStats {
			row.Stats = ""
		}
	}
	update := clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"seen_at", "unwritable", "stats"})}
	if err := db.Clauses(update).Create(&row).Error; err != nil {
		return nil, fmt.Errorf("write the heartbeat of %s: %w", node, err)
	}
	var rows []Node
	if err := db.Omit("stats").Order("id").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read the heartbeats of all nodes for %s: %w", node, err)
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
			return nil, fmt.Errorf("delete old heartbeats for %s: %w", node, err)
		}
	}
	return rows, nil
}

// LiveNodes returns the rows of the nodes whose heartbeat is within alive of the database's time,
// sorted by id, with their stats.
func (s *Store) LiveNodes(ctx context.Context, alive time.Duration) ([]Node, error) {
	db := s.DB.WithContext(ctx)
	now, err := s.readTime(db)
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	var rows []Node
	err = db.Where("seen_at > ? AND seen_at < ?", now.Add(-alive), now.Add(alive)).Order("id").Find(&rows).Error
	return rows, wrap(err, "read the nodes")
}

// RemoveNode deletes the node's row, so that the other nodes replace it at once.
func (s *Store) RemoveNode(ctx context.Context, node string) error {
	return wrap(s.DB.WithContext(ctx).Delete(&Node{ID: node}).Error, "delete the row of node %s", node)
}

// ClearKeeper removes the keeper's name from the row of sku, if the row still has the given
// fence.
func (s *Store) ClearKeeper(ctx context.Context, sku string, fence int64) error {
	err := s.DB.WithContext(ctx).Exec("UPDATE sales SET keeper = '' WHERE sku = ? AND fence = ?", sku, fence).Error
	return wrap(err, "vacate %s", sku)
}
