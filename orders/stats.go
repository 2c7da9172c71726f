package orders

// Counters are what this node's keepers and sweeper have done.
func (s *Service) Counters() *Counters { return &s.keepers.count }

// Kept returns the SKUs that this node keeps.
func (s *Service) Kept() []string { return s.keepers.Kept() }
