// Package bench compares the program with plain counterparts. Each figure is the
// ratio of two measurements, taken one after the other on private real servers.
// Absolute figures depend on the machine and its load; ratios depend on them much
// less.
//
// The measured programs run in processes of their own, so the CPU time of each is
// known. Reading order: run.go (the list of benchmarks), bench.go (servers and
// cleanup), measure.go (alternating measurements), node.go and wrk.go (a node under
// load), load.go (load inside this process), report.go (the result). The other files
// contain the benchmarks.
package bench
