package drill

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest/check"
)

// silent is a transport to a node that never answers.
type silent struct{}

func (silent) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("silent") }

// When replay returns, it has repeated each promise at the node at least once.
func TestReplay(t *testing.T) {
	l, err := lab.NewWithStores(lab.Config{}, &servers.Stores{})
	check.Must(t, err)
	l.Nodes = []*lab.Node{{Process: &servers.Process{}}, {Process: &servers.Process{}}}
	a := &round{storm: &storm{stage: &stage{Lab: l}, http: &http.Client{Transport: silent{}}}, runCtx: t.Context()}
	for i := range 3*replayers + 1 {
		name := string(rune('a' + i))
		a.promises = append(a.promises, call{verb: place, sku: "S", key: name}, call{verb: pay, order: name})
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for share := range replayers {
		a.replay(over, 1, share, rand.New(rand.NewPCG(1, 1)))
	}
	asked := map[intent]bool{}
	for _, c := range a.book {
		asked[c.intent()] = c.node == 1
	}
	for _, c := range a.promises {
		if !asked[c.intent()] {
			t.Errorf("replay: got none at node 1 of %+v, want one", c.intent())
		}
	}
}
