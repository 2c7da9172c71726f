package drill

import (
	"context"
	"errors"
	"time"

	"flashsale/loadtest/client"
)

var keeperPaused = drill{
	name:    "keeper-paused",
	happens: "the node that keeps the sale is paused (SIGSTOP) past its lease, another takes over, the first goes on",
	sees:    "503 for what that node has in its hands; a pause of one lease at most",
	never:   "the writes of two keepers both landing; a sale frozen",
	keeper:  true,
	fault: func(ctx context.Context, s *stage) error {
		n, err := s.keeper(ctx)
		if err != nil {
			return err
		}
		if err := n.Pause(); err != nil {
			return err
		}
		s.did("%s paused, the keeper", n.Name)
		began, atLeast := time.Now(), s.between(lease*5/4, lease*7/4)
		successor, err := s.keeper(ctx, n)
		if err == nil {
			s.did("%s took over", successor.Name)
			err = client.Wait(ctx, atLeast-time.Since(began))
		}
		err = errors.Join(err, n.Resume())
		s.did("%s goes on", n.Name)
		return err
	},
}
