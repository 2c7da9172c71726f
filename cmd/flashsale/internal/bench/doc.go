// Package bench measures the program against plain counterparts: every figure
// is a ratio of two measurements taken one after the other, on private real
// servers, in one run. Absolute figures move with the machine and with what
// else it does; ratios hardly do.
//
// What is measured runs in processes of its own, this program's own `serve`
// among them, so that the CPU time of each is known. Reading order: bench.go
// (what there is), lab.go and node.go (what it runs on), pair.go (ours and
// theirs in turn), wrk.go (the load), report.go and text.go (the result); each
// benchmark has a file.
package bench
