package drill

import "context"

var nodeStopped = drill{
	name:    "node-stopped",
	happens: "the node that keeps the sale is stopped (SIGTERM) and started again, as in a deployment",
	sees:    "nothing: it hands over at once",
	never:   "an accepted order lost",
	fault: func(ctx context.Context, s *stage) error {
		n, role, err := s.victim(ctx)
		if err != nil {
			return err
		}
		s.did("%s stopped%s", n.Name, role)
		if err := n.Restart(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		s.did("started again")
		return nil
	},
}
