// Package bench measures the program against plain counterparts. Each figure is
// the ratio of two measurements, taken one after the other on private real
// servers. Absolute figures depend on the machine and on what else it does;
// ratios hardly do.
//
// What is measured runs in processes of its own, this program's own `serve`
// among them, so that the CPU time of each is known. Reading order: run.go (what
// there is), bench.go (what it runs on), measure.go (ours and theirs in turn),
// node.go and wrk.go (a node, and the load on it), load.go (the same inside this
// process), report.go (the result). The other files are benchmarks.
package bench
