package drill

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"flashsale/loadtest/servers/wire"
)

// A nemesis carries out the plan of an act.
type nemesis struct {
	*act
	ctx context.Context // of the act; harm that is done is mended after it, too
}

// healing is for mending: it goes on when the act has ended, and not for ever.
func (n *nemesis) healing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(n.ctx), 30*time.Second)
}

// harms notes what is done, and what it changes.
func (n *nemesis) harms(kind change, what func(c *condition), format string, args ...any) {
	n.did(fmt.Sprintf(format, args...))
	n.condition.change(kind, what)
}

// loseMySQL: a node loses only MySQL.
func loseMySQL(n *nemesis, p step) error {
	w := n.Nodes[p.node].MySQL
	return n.lose(p, "MySQL", w, w.Cut, w.Restore, &n.condition.noMySQL)
}

// loseRedis: a node loses only Redis.
func loseRedis(n *nemesis, p step) error {
	w := n.Nodes[p.node].Redis
	return n.lose(p, "Redis", w, func() { n.cutRedis(p.node) }, func() { n.restoreRedis(p.node) }, &n.condition.noRedis)
}

// lose has a node lose a store. Cut: its connections end and no new ones are
// taken. Frozen: nothing comes through, and nothing ends.
func (n *nemesis) lose(p step, store string, w *wire.Wire, begin, end func(), without *[nodeCount]int) error {
	how := "cut"
	if p.variant == 1 {
		how, begin, end = "frozen", w.Freeze, w.Thaw
	}
	begin()
	n.harms(harm, func(*condition) { without[p.node]++ }, "%s loses %s (%s) for %.1fs", n.Nodes[p.node].Name, store, how, p.last.Seconds())
	sleep(n.ctx, p.last)
	end()
	n.condition.change(mend, func(*condition) { without[p.node]-- })
	return nil
}

// cutRedis cuts a node off from Redis, for one more reason.
func (n *nemesis) cutRedis(i int) {
	n.condition.mu.Lock()
	defer n.condition.mu.Unlock()
	n.condition.cuts[i]++
	n.Nodes[i].Redis.Cut()
}

// restoreRedis takes one reason away, and with the last one the cut.
func (n *nemesis) restoreRedis(i int) {
	n.condition.mu.Lock()
	defer n.condition.mu.Unlock()
	if n.condition.cuts[i]--; n.condition.cuts[i] == 0 {
		n.Nodes[i].Redis.Restore()
	}
}

func (n *nemesis) cutAllRedis() {
	for i := range n.Nodes {
		n.cutRedis(i)
	}
}

func (n *nemesis) restoreAllRedis() {
	for i := range n.Nodes {
		n.restoreRedis(i)
	}
}

// keepLeft keeps spare units of each sale on sale, for the duration d.
func (n *nemesis) keepLeft(spare int, d time.Duration, skus ...string) {
	ctx, cancel := context.WithTimeout(n.ctx, d)
	defer cancel()
	for ; ctx.Err() == nil; sleep(ctx, 250*time.Millisecond) {
		for _, sku := range skus {
			n.operator.stock(ctx, sku, int64(spare))
		}
	}
}

// leadRedis leads a node to the active Redis. A node that is cut off stays so.
func (n *nemesis) leadRedis(i int) {
	n.condition.mu.Lock()
	defer n.condition.mu.Unlock()
	n.Nodes[i].Redis.Lead(n.redises[n.active].Addr())
	if n.condition.cuts[i] > 0 {
		n.Nodes[i].Redis.Cut()
	}
}

// killNode: SIGKILL, and a new process after a while.
func killNode(n *nemesis, p step) error {
	victim := n.Nodes[p.node]
	victim.Kill()
	n.harms(harm, func(c *condition) { c.down[p.node]++ }, "%s killed for %.1fs", victim.Name, p.last.Seconds())
	sleep(n.ctx, p.last)
	ctx, cancel := n.healing()
	defer cancel()
	err := victim.Restart(ctx)
	n.condition.change(mend, func(c *condition) { c.down[p.node]-- })
	return err
}

// pauseNode: SIGSTOP, longer than its stormLease, and then it goes on.
func pauseNode(n *nemesis, p step) error {
	victim := n.Nodes[p.node]
	if err := victim.Pause(); err != nil {
		return err
	}
	n.did(fmt.Sprintf("%s paused for %.1fs", victim.Name, p.last.Seconds()))
	n.condition.paused(p.node)
	sleep(n.ctx, p.last)
	err := victim.Resume()
	n.condition.resumed(p.node)
	return err
}

// What is looked for in the bytes that a node sends.
var (
	isCommit = wire.Contains("\x03COMMIT")
	isScript = wire.Contains("evalsha")
)

// isOrder tells whether a script is for orders of a sale, or for payments that
// take units.
func isOrder(piece []byte, sku string) bool {
	return isScript(piece) && bytes.Contains(piece, []byte("{"+sku+"}")) &&
		(bytes.Contains(piece, []byte(keyMark)) || bytes.Contains(piece, []byte(refMark)))
}

// while returns match until it is over: what a wire has not met by then, it is
// not to meet in a later step.
func while(match func([]byte) bool) (_ func([]byte) bool, end func()) {
	var over atomic.Bool
	return func(piece []byte) bool { return !over.Load() && match(piece) }, func() { over.Store(true) }
}

// silenceCommits: one or two connections go silent in the middle of a COMMIT,
// and stay so for good. New ones work.
func silenceCommits(n *nemesis, p step) error {
	match, end := while(isCommit)
	defer end()
	victim := n.Nodes[p.node]
	silenced := victim.MySQL.Silence(1+p.variant, match)
	n.harms(harm, nil, "%s: the next %d COMMITs and their connections go silent", victim.Name, 1+p.variant)
	sleep(n.ctx, p.last)
	n.did(fmt.Sprintf("%s: %d went silent", victim.Name, silenced()))
	return nil
}

// delayCommits: COMMITs of one node are held on the way and arrive late.
func delayCommits(n *nemesis, p step) error {
	return n.late(p, n.Nodes[p.node].MySQL.Hold(isCommit), "a COMMIT is")
}

func (n *nemesis) late(p step, held *wire.Catch, what string) error {
	n.harms(harm, nil, "%s: %s on the way for %.1fs", n.Nodes[p.node].Name, what, p.last.Seconds())
	sleep(n.ctx, p.last)
	held.Pass()
	return nil
}

// loseCommitAnswers: MySQL commits, and the node does not hear of it.
func loseCommitAnswers(n *nemesis, p step) error {
	return n.loseAnswers(p, n.Nodes[p.node].MySQL, 2, isCommit, "COMMITs")
}

func (n *nemesis) loseAnswers(p step, w *wire.Wire, many int, match func([]byte) bool, what string) error {
	match, end := while(match)
	defer end()
	w.LoseAnswers(many, match)
	n.harms(harm, nil, "%s: the answers to %d %s are lost", n.Nodes[p.node].Name, many, what)
	sleep(n.ctx, p.last)
	return nil
}

// delayOrders: what one node asks the gate of one sale for is held on the way
// and arrives late. Meanwhile the sale is sold out, so that whoever asks another
// node hears no; and when it arrives, there is something to take.
func delayOrders(n *nemesis, p step) error {
	victim, sku := n.Nodes[p.node], n.skus[p.sku]
	n.operator.leave(sku, true)
	defer n.operator.leave(sku, false)
	n.operator.stock(n.ctx, sku, 10)
	held := victim.Redis.HoldAll(func(piece []byte) bool { return isOrder(piece, sku) })
	n.harms(mend, nil, "%s: orders of %s are on their way for %.1fs, and it is sold out", victim.Name, sku, p.last.Seconds())
	sleep(n.ctx, 300*time.Millisecond)
	n.keepLeft(0, p.last-300*time.Millisecond, sku)
	n.operator.stock(n.ctx, sku, 50)
	held.Pass()
	n.did(fmt.Sprintf("%s: the orders of %s arrive", victim.Name, sku))
	sleep(n.ctx, 300*time.Millisecond)
	return nil
}

// delayScripts: whatever one node has Redis do is held on the way.
func delayScripts(n *nemesis, p step) error {
	return n.late(p, n.Nodes[p.node].Redis.HoldAll(isScript), "its scripts are")
}

// loseScriptAnswers: Redis runs scripts, and the node does not hear of it.
func loseScriptAnswers(n *nemesis, p step) error {
	return n.loseAnswers(p, n.Nodes[p.node].Redis, 4, isScript, "scripts")
}

// slowNetwork: everything between one node and one store takes 30 ms each way.
func slowNetwork(n *nemesis, p step) error {
	victim := n.Nodes[p.node]
	w, store := victim.Redis, "Redis"
	if p.variant == 1 {
		w, store = victim.MySQL, "MySQL"
	}
	w.Delay(wire.Both, 30*time.Millisecond, 0)
	n.harms(mend, nil, "%s: %s is 60 ms away for %.1fs", victim.Name, store, p.last.Seconds())
	sleep(n.ctx, p.last)
	w.Delay(wire.Both, 0, 0)
	return nil
}
