package store

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm/clause"

	"flashsale/orders"
)

// A Webhook is a row of the table webhooks: how far the feed of changes has been delivered to one
// endpoint.
type Webhook struct {
	Name        string    `gorm:"primaryKey"`
	Position    string    // cursor of the feed: all changes before it are delivered
	Failures    int64     // failed attempts since the last delivery
	NextAt      time.Time // earliest time of the next attempt
	LeasedUntil time.Time // until then, one node makes an attempt
	Stopped     bool      // the endpoint has answered 410 Gone
	LastError   string    // of the last failed attempt, up to 300 bytes of UTF-8; "" after a delivery
}

// Webhook reads the row of a webhook, and creates it if there is none. It also returns the database's
// time, which it reads first.
func (s *Store) Webhook(ctx context.Context, name string) (row Webhook, now time.Time, err error) {
	db := s.DB.WithContext(ctx)
	if now, err = s.readTime(db); err == nil {
		r := db.Where("name = ?", name).Limit(1).Find(&row)
		if err = r.Error; err == nil && r.RowsAffected == 0 {
			row = Webhook{Name: name, NextAt: now, LeasedUntil: now}
			err = db.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error
		}
	}
	return row, now, wrap(err, "read webhook %s", name)
}

// Webhooks reads the rows of all webhooks, sorted by name.
func (s *Store) Webhooks(ctx context.Context) (rows []Webhook, err error) {
	err = s.DB.WithContext(ctx).Order("name").Find(&rows).Error
	return rows, wrap(err, "read the webhooks")
}

// SwapWebhook replaces was by next if the row still equals was, and reports whether it did. A node
// whose lease was taken over changes nothing, because each lease ends later than the one before.
func (s *Store) SwapWebhook(ctx context.Context, was, next Webhook) (swapped bool, err error) {
	err = s.retry(ctx, func() error {
		r := s.DB.WithContext(ctx).Model(&Webhook{}).Select("*").Where("name = ? AND position = ? AND failures = ? AND next_at = ? AND leased_until = ? AND stopped = ?",
			was.Name, was.Position, was.Failures, was.NextAt, was.LeasedUntil, was.Stopped).Updates(next)
		swapped = r.Error == nil && r.RowsAffected == 1
		return r.Error
	})
	return swapped, wrap(err, "change webhook %s", was.Name)
}

// ResumeWebhook makes a webhook continue at once, although it has failed or stopped. If after is not
// nil, it continues after that cursor. The result of an attempt in progress is discarded. Errors:
// ErrNotFound, *InvalidError with the field after.
func (s *Store) ResumeWebhook(ctx context.Context, name string, after *string) error {
	if after != nil {
		if _, _, err := s.Changes(ctx, *after, 1); err != nil {
			return err
		}
	}
	db := s.DB.WithContext(ctx)
	now, err := s.readTime(db)
	if err != nil {
		return wrap(err, "resume webhook %s", name)
	}
	set := map[string]any{"failures": 0, "next_at": now, "leased_until": now, "stopped": false, "last_error": ""}
	if after != nil {
		set["position"] = *after
	}
	r := db.Model(&Webhook{}).Where("name = ?", name).Updates(set)
	if r.Error == nil && r.RowsAffected == 0 {
		r.Error = fmt.Errorf("no node has been started with --webhook %s=URL: %w", name, orders.ErrNotFound)
	}
	return wrap(r.Error, "resume webhook %s", name)
}
