package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"flashsale/loadtest"
)

// run carries one drill out: the servers, the attack with the harm in it, the
// verdict.
func (d drill) run(ctx context.Context, cfg Config, report *Report) (row Row, err error) {
	row = Row{Name: d.name, Done: []string{}, Violations: []string{}}
	cfg.say("%s: %s", d.name, d.happens)
	s, err := d.open(ctx, cfg)
	if err != nil {
		return row, fmt.Errorf("set the stage: %w", err)
	}
	var verdict *loadtest.Report
	defer func() {
		if cfg.Keep && ctx.Err() == nil && (err != nil || verdict.ExitCode() != loadtest.ExitPass) {
			var keepErr error
			row.Logs, keepErr = s.keepLogs(verdict)
			err = errors.Join(err, keepErr)
		}
		err = errors.Join(err, s.close())
	}()
	report.Stores = s.stores.Versions

	// Harm that still waits for the attack when there is none any more gives up.
	harming, stop := context.WithCancel(ctx)
	defer stop()
	harmed := make(chan error, 1)
	go func() { harmed <- d.harm(harming, s) }()
	verdict, err = loadtest.Run(ctx, s.attack())
	stop()
	if harm := <-harmed; harm != nil && err == nil {
		err = fmt.Errorf("do the harm: %w", harm)
	}
	row.Done = append(row.Done, s.done()...)
	if verdict != nil {
		row.judge(verdict, s.balancer.seen(), cfg.Duration)
		row.breaks(s.broken())
	}
	return row, err
}

// attack is the load on the sale. Half of what is asked for is on sale: selling
// is well under way when the harm is done, goes on after it, and the last units
// are fought for even if it stood still for half of the time.
func (s *stage) attack() loadtest.Config {
	c := loadtest.Defaults()
	c.Target, c.SKU, c.Name = s.balancer.URL(), sku, "Drill"
	c.Token = func(subject string, admin bool) (string, error) { return s.verifier.Sign(subject, admin, 6*time.Hour) }
	c.Rate, c.Duration = s.cfg.Rate, s.cfg.Duration
	c.Buyers = int(float64(c.Rate) * c.Duration.Seconds())
	c.Stock = c.Buyers / 2
	c.Seed = s.cfg.Seed
	c.Timeout = clientTimeout
	c.Strategy, c.Stores = s.cfg.Strategy, s.stores.Kind
	return c
}

// keepLogs saves what the servers wrote, and the whole verdict.
func (s *stage) keepLogs(verdict *loadtest.Report) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "flashsale-drill-"+s.name+"-"); err != nil {
		return "", fmt.Errorf("keep the logs: %w", err)
	}
	var errs []error
	save := func(name string, log []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), log, 0o600)
		}
		errs = append(errs, err)
	}
	for name, p := range s.processes() {
		log, err := p.Log()
		save(name+".log", log, err)
	}
	if verdict != nil {
		var text strings.Builder
		err := verdict.WriteText(&text)
		save("verdict.txt", []byte(text.String()), err)
	}
	return dir, errors.Join(errs...)
}
