package store

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale/orders"
)

// A proof of ownership is a random text that the database and Redis both hold. Package controller
// compares them. The database keeps the last few proofs in a row of table nodes that stands for no node. The
// seen_at of the row is far in the future, so no query counts the row as live or as old.

// OwnerRow is the id of the row whose stats are the proofs, the newest first.
const OwnerRow = "owner of redis"

// KeptProofs is the number of proofs that the database keeps. Redis may lose its latest writes in
// a failover, and then has an earlier proof.
const KeptProofs = 4

// An Identity distinguishes a database from others and from its copies.
type Identity struct {
	Place  string   // server and name of the database
	Proofs []string // proofs of ownership, the newest first
}

// Identity returns the identity of the database. The first call creates a proof. A primary that was
// replaced returns an error, because it does not commit the barrier after the read.
func (s *Store) Identity(ctx context.Context) (Identity, error) {
	id, err := readDurably(ctx, s, func(db *gorm.DB) (id Identity, err error) {
		if id.Place = s.dsn; !s.sqlite {
			if err := db.Raw("SELECT CONCAT(@@hostname, ':', @@port, '/', DATABASE())").Row().Scan(&id.Place); err != nil {
				return id, err
			}
		}
		row, err := first[Node](db.Where("id = ?", OwnerRow), "the row of the owner")
		if errors.Is(err, orders.ErrNotFound) {
			row = &Node{ID: OwnerRow, SeenAt: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), Stats: rand.Text()}
			err = db.Create(row).Error // fails if another node has created the row: the next call reads it
		}
		if err == nil {
			id.Proofs = strings.Fields(row.Stats)
		}
		return id, err
	})
	return id, wrap(err, "read the proofs of ownership")
}

// ReplaceProof adds a proof if the database still holds the given proofs.
func (s *Store) ReplaceProof(ctx context.Context, proofs []string) error {
	next := append([]string{rand.Text()}, proofs[:min(len(proofs), KeptProofs-1)]...)
	err := s.DB.WithContext(ctx).Exec("UPDATE nodes SET stats = ? WHERE id = ? AND stats = ?",
		strings.Join(next, " "), OwnerRow, strings.Join(proofs, " ")).Error
	return wrap(err, "replace the proof of ownership")
}
