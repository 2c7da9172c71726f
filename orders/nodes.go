package orders

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm/clause"
)

// A node says that it is there by one row, on the database's clock: what the
// nodes' own clocks say makes no difference.
type heartbeat struct {
	ID     string `gorm:"primaryKey"`
	SeenAt time.Time
	Redis  bool // whether the node reaches Redis: false once it has not for long (link.go)
}

func (heartbeat) TableName() string { return "nodes" }

// longGone is after how long the row of a node that died is taken away.
const longGone = time.Hour

// Beat writes the node's row, drops the rows of nodes long gone, and returns
// the ids of those seen within alive, this one among them. Each statement
// stands for itself: nodes that held their own row while they looked at the
// others' would lock each other out.
func (s *Store) Beat(ctx context.Context, node string, redis bool, alive time.Duration) ([]string, error) {
	db := s.db.WithContext(ctx)
	now, err := s.clock(db)
	if err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", node, err)
	}
	row := heartbeat{ID: node, SeenAt: now, Redis: redis}
	if err := db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", node, err)
	}
	var rows []heartbeat
	if err := db.Order("id").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", node, err)
	}
	var nodes, gone []string
	for _, r := range rows {
		switch age := now.Sub(r.SeenAt); {
		case age < alive:
			nodes = append(nodes, r.ID)
		case age > longGone:
			gone = append(gone, r.ID)
		}
	}
	if len(gone) > 0 {
		if err := db.Where("id IN ? AND seen_at < ?", gone, now.Add(-longGone)).Delete(&heartbeat{}).Error; err != nil {
			return nil, fmt.Errorf("heartbeat of %s: drop old rows: %w", node, err)
		}
	}
	return nodes, nil
}

// Leave takes the node's row away: the others need not wait for it to grow old.
func (s *Store) Leave(ctx context.Context, node string) error {
	if err := s.db.WithContext(ctx).Delete(&heartbeat{ID: node}).Error; err != nil {
		return fmt.Errorf("leave as %s: %w", node, err)
	}
	return nil
}
