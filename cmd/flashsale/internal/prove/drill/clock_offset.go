package drill

var clockOffset = drill{
	name:    "clock-offset",
	happens: "the clocks of the nodes are off by minutes, each by its own; the keeper is stopped, one with another clock goes on",
	sees:    "nothing",
	never:   "a sale opened, closed or expired at the wrong time",
	clocks:  true,
	keeper:  true,
	fault:   nodeStopped.fault,
}
