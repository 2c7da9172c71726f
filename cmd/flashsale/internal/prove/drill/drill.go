package drill

import (
	"context"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

// Config of a run.
type Config struct {
	lab.Harm
	Names    []string      // of the drills to run, see Names; none means all
	Rate     int           // orders per second
	Duration time.Duration // of each attack: long enough for the fault to be mended within it

	// MySQLFolder has the mysqld of MySQL 9, for a replication group.
	MySQLFolder string

	// Asynchronous has MySQL's primary not wait for its replica, which loses
	// orders where the replica is promoted.
	Asynchronous bool
}

// A drill is one row of the failure table.
type drill struct {
	name    string
	happens string
	sees    string // the buyer
	never   string // is true
	// keeper: its fault is in what a variant of the gallery has not: keepers, the
	// gate, direct mode, clocks.
	keeper bool
	// What the drill needs between the nodes and their stores.
	redisWire, mysqlWire bool // one for all nodes
	replica              bool // of Redis, behind a wire of its own
	standby              bool // a replica of MySQL, behind a wire of its own
	group                bool // MySQL is the primary of a replication group
	clocks               bool // of the nodes differ
	wires                bool // from each node to each store, one of its own

	// fault happens while the attack runs. It also mends what it broke, even
	// after ctx has ended, which only makes it hurry. What it sees for itself
	// that must not be, it reports with broke; an error means that there was no
	// fault, and nothing was seen.
	fault func(ctx context.Context, s *stage) error
}

// byName tells that the drill is run only where it is asked for: a database that
// fails over takes long.
func (d drill) byName() bool { return d.standby || d.group }
