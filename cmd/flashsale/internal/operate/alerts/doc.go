// Package alerts tests the rules in .compose/alerts.yml: that each fires on the
// harm it is for, and not on a healthy sale. It is a module of its own: it
// evaluates them with Prometheus's engine, on which the program does not depend.
package alerts
