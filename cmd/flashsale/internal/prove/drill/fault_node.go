package drill

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"flashsale/loadtest/servers/wire"
)

func loseMySQL(in *injector, p step) error {
	w := in.Nodes[p.node].MySQL
	return in.lose(p, "MySQL", w, w.Cut, w.Restore, func(c *brokenState, by int) { c.noMySQL[p.node] += by })
}

func loseRedis(in *injector, p step) error {
	w := in.Nodes[p.node].Redis
	return in.lose(p, "Redis", w, func() { in.cutRedis(p.node) }, func() { in.restoreRedis(p.node) }, func(c *brokenState, by int) { c.noRedis[p.node] += by })
}

// lose separates a node from a store. Cut: connections end, and new ones are rejected.
// Frozen: connections stay open, and no bytes pass.
func (in *injector) lose(p step, store string, w *wire.Wire, begin, end func(), lacks func(c *brokenState, by int)) error {
	how := "cut"
	if p.variant == 1 {
		how, begin, end = "frozen", w.Freeze, w.Thaw
	}
	begin()
	return in.lasts(p, faulted, lacks, quietly(end), "%s loses %s (%s)", in.Nodes[p.node].Name, store, how)
}

func killNode(in *injector, p step) error {
	victim := in.Nodes[p.node]
	victim.Kill()
	return in.lasts(p, faulted, func(c *brokenState, by int) { c.down[p.node] += by }, victim.Restart, "%s killed", victim.Name)
}

func stopNode(in *injector, p step) error {
	victim := in.Nodes[p.node]
	return in.lasts(step{}, faulted, nil, victim.Restart, "%s stopped", victim.Name)
}

func pauseNode(in *injector, p step) error {
	victim := in.Nodes[p.node]
	if err := victim.Pause(); err != nil {
		return err
	}
	lacks := func(c *brokenState, by int) { c.paused(p.node, by) }
	return in.lasts(p, faulted, lacks, func(context.Context) error { return victim.Resume() }, "%s paused", victim.Name)
}

// Patterns of the bytes that a node sends.
var (
	isCommit = wire.Contains("\x03COMMIT")
	isScript = wire.Contains("evalsha")
)

// isOrder reports whether a script contains orders of the sale, or payments that take
// units.
func isOrder(piece []byte, sku string) bool {
	return isScript(piece) && bytes.Contains(piece, []byte("{"+sku+"}")) &&
		(bytes.Contains(piece, []byte(keyMark)) || bytes.Contains(piece, []byte(refMark)))
}

// while returns match until end is called. Then the pattern matches nothing, so that a
// wire does not apply it in a later step.
func while(match func([]byte) bool) (_ func([]byte) bool, end func()) {
	var over atomic.Bool
	return func(piece []byte) bool { return !over.Load() && match(piece) }, func() { over.Store(true) }
}

// silenceCommits silences one or two connections during a COMMIT, and does not restore
// them. New connections work.
func silenceCommits(in *injector, p step) error {
	match, end := while(isCommit)
	victim := in.Nodes[p.node]
	silenced := victim.MySQL.Silence(1+p.variant, match)
	return in.lasts(p, faulted, nil, quietly(func() {
		end()
		in.did("%s: %d went silent", victim.Name, silenced())
	}), "%s: the next %d COMMITs and their connections go silent", victim.Name, 1+p.variant)
}

func delayCommits(in *injector, p step) error {
	held := in.Nodes[p.node].MySQL.Hold(isCommit)
	return in.lasts(p, faulted, nil, quietly(held.Pass), "%s: a COMMIT is on the way", in.Nodes[p.node].Name)
}

func delayScripts(in *injector, p step) error {
	held := in.Nodes[p.node].Redis.HoldAll(isScript)
	return in.lasts(p, faulted, nil, quietly(held.Pass), "%s: its scripts are on the way", in.Nodes[p.node].Name)
}

func loseCommitAnswers(in *injector, p step) error {
	return in.loseAnswers(p, in.Nodes[p.node].MySQL, 2, isCommit, "COMMITs")
}

func loseScriptAnswers(in *injector, p step) error {
	return in.loseAnswers(p, in.Nodes[p.node].Redis, 4, isScript, "scripts")
}

func (in *injector) loseAnswers(p step, w *wire.Wire, many int, match func([]byte) bool, what string) error {
	match, end := while(match)
	w.LoseAnswers(many, match)
	return in.lasts(p, faulted, nil, quietly(end), "%s: the answers to %d %s are lost", in.Nodes[p.node].Name, many, what)
}

// delayOrders delays the orders of one node on the way to the gate of one sale. Meanwhile
// the sale is sold out, so that other nodes refuse buyers. When the delayed orders
// arrive, there are units again.
func delayOrders(in *injector, p step) error {
	victim, sku := in.Nodes[p.node], in.skus[p.sku]
	defer in.operator.leave(sku)()
	in.operator.stock(in.ctx, sku, 10)
	held := victim.Redis.HoldAll(func(piece []byte) bool { return isOrder(piece, sku) })
	in.begin(mended, nil, "%s: orders of %s are on their way for %.1fs, and it is sold out", victim.Name, sku, p.last.Seconds())
	sleep(in.ctx, 300*time.Millisecond)
	in.operator.keepLeft(in.ctx, 0, p.last-300*time.Millisecond, sku)
	in.operator.stock(in.ctx, sku, 50)
	held.Pass()
	in.did("%s: the orders of %s arrive", victim.Name, sku)
	sleep(in.ctx, 300*time.Millisecond)
	return nil
}

// slowNetwork adds 30 ms each way between one node and one store.
func slowNetwork(in *injector, p step) error {
	victim := in.Nodes[p.node]
	w, store := victim.Redis, "Redis"
	if p.variant == 1 {
		w, store = victim.MySQL, "MySQL"
	}
	w.Delay(wire.Both, 30*time.Millisecond, 0)
	return in.lasts(p, mended, nil, quietly(func() { w.Delay(wire.Both, 0, 0) }), "%s: %s is 60 ms away", victim.Name, store)
}
