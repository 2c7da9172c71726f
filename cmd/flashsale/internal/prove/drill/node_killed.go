package drill

import "context"

var nodeKilled = drill{
	name:    "node-killed",
	happens: "the node that keeps the sale is killed (SIGKILL) and started again",
	sees:    "a pause of one lease at most; a retry finds the order under its key",
	never:   "a unit lost, sold twice or given back twice",
	fault: func(ctx context.Context, s *stage) error {
		n, role, err := s.victim(ctx)
		if err != nil {
			return err
		}
		return s.killed(ctx, n.Name+" killed"+role, n.Process, lease/4, lease*3/2, n.Restart, "started again")
	},
}
