package drill

import "context"

var nodeKilled = drill{
	name:    "node-killed",
	happens: "the node that keeps the sale is killed (SIGKILL) and started again",
	sees:    "a pause of one lease at most; a retry finds the order under its key",
	never:   "a unit lost, sold twice or given back twice",
	harm: func(ctx context.Context, s *stage) error {
		if err := s.moment(ctx); err != nil {
			return err
		}
		n, err := s.keeper(ctx)
		if err != nil {
			return err
		}
		n.Kill()
		s.did("%s killed, the keeper", n.name)
		s.pause(ctx, lease/4, lease*3/2)
		if err := n.Restart(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		s.did("started again")
		return nil
	},
}
