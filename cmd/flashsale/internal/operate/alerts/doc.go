// Package alerts tests the rules in .compose/alerts.yml. Each alert must fire on the
// failure that it is for, and not on a healthy sale. The package is a module of its own,
// because it needs Prometheus's engine, on which the program does not depend.
package alerts
