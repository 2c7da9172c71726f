package store

import (
	"slices"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The proofs of ownership are replaced one by one, and only from what the database has. Their row
// is no node: it is never live, and no heartbeat deletes it.
func TestProofsOfOwnership(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, dsn string) {
		s := openStore(t, dsn)
		id := func() Identity {
			t.Helper()
			id, err := s.Identity(t.Context())
			check.Must(t, err)
			return id
		}
		first := id()
		if len(first.Proofs) != 1 || first.Place == "" || first.Place != id().Place || !slices.Equal(first.Proofs, id().Proofs) {
			t.Fatalf("new database: got the identities %+v and %+v, want the same place and the same proof", first, id())
		}
		check.Must(t, s.ReplaceProof(t.Context(), first.Proofs))
		second := id()
		if len(second.Proofs) != 2 || second.Proofs[1] != first.Proofs[0] || second.Proofs[0] == first.Proofs[0] {
			t.Errorf("replaced proof: got %q after %q, want a new one before it", second.Proofs, first.Proofs)
		}
		check.Must(t, s.ReplaceProof(t.Context(), first.Proofs)) // another node was faster
		if got := id(); !slices.Equal(got.Proofs, second.Proofs) {
			t.Errorf("proof replaced by two nodes: got %q, want %q", got.Proofs, second.Proofs)
		}
		for range KeptProofs {
			check.Must(t, s.ReplaceProof(t.Context(), id().Proofs))
		}
		if got := id(); len(got.Proofs) != KeptProofs {
			t.Errorf("proofs: got %q, want %d", got.Proofs, KeptProofs)
		}
		for range 2 {
			nodes, err := s.Heartbeat(t.Context(), "a", nil, time.Hour)
			check.Must(t, err)
			live, err := s.LiveNodes(t.Context(), time.Hour)
			check.Must(t, err)
			if len(nodes) != 1 || len(live) != 1 {
				t.Errorf("live nodes: got %+v and %+v, want a alone", nodes, live)
			}
		}
		if got := id(); len(got.Proofs) != KeptProofs {
			t.Errorf("proofs after heartbeats: got %q, want %d", got.Proofs, KeptProofs)
		}
	})
}
