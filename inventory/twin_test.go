package inventory

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A twin is a script with one guard removed. A check that passes on the twin proves
// nothing.
type twin struct {
	seed     uint64 // seed with which the model finds the fault at once
	name     string
	script   **redis.Script
	source   string // source of the whole script
	old, new string
}

// use replaces the right script by the twin until the test ends. Tests that use a twin
// must not run in parallel.
func (tw twin) use(t testing.TB) {
	t.Helper()
	if strings.Count(tw.source, tw.old) != 1 {
		t.Fatalf("twin %s: the script does not contain %q exactly once", tw.name, tw.old)
	}
	right := *tw.script
	*tw.script = redis.NewScript(strings.Replace(tw.source, tw.old, tw.new, 1))
	t.Cleanup(func() { *tw.script = right })
}

// smallEntry is the size of an entry in tests that search through several entries.
const smallEntry = 2

// reserveSource is reserve.lua with cooldowns of up to two hours. The model has no clock,
// so it decides how long a cooldown lasts.
var reserveSource = strings.Replace(lua("replid", "cooldown", "reserve"), "local COOLDOWN = 101", "local COOLDOWN = 7200000", 1)

func entryTwin(entry int) twin {
	return twin{0, "", &reserveScript, reserveSource, fmt.Sprint("local ENTRY = ", fullEntry), fmt.Sprint("local ENTRY = ", entry)}
}

// entriesOf sets the size of an entry until the test ends.
func entriesOf(t testing.TB, entry int) {
	t.Helper()
	entryTwin(entry).use(t)
}

// reserveTwin returns a twin of reserve.lua with small entries, so that faults at their
// borders show.
func reserveTwin(seed uint64, name, old, new string) twin {
	small := entryTwin(smallEntry)
	return twin{seed, name, &reserveScript, strings.Replace(reserveSource, small.old, small.new, 1), old, new}
}

func releaseTwin(seed uint64, name, old, new string) twin {
	return twin{seed, name, &releaseScript, lua("epoch", "cooldown", "release_units", "release"), old, new}
}

func dropTwin(seed uint64, name, old, new string) twin {
	return twin{seed, name, &dropScript, lua("epoch", "drop_holds"), old, new}
}

func ackTwin(seed uint64, name, old, new string) twin {
	return twin{seed, name, &ackScript, lua("cooldown", "release_units", "ack"), old, new}
}

func termsTwin(seed uint64, name, old, new string) twin {
	return twin{seed, name, &termsScript, lua("epoch", "cooldown", "terms"), old, new}
}

func shutTwin(seed uint64, name, old, new string) twin {
	return twin{seed, name, &beginRebuildScript, lua("begin_rebuild"), old, new}
}

func installTwin(seed uint64, name, old, new string) twin {
	return twin{seed, name, &installScript, lua("replid", "install"), old, new}
}

// Each twin removes one guard, and the model must notice.
var twins = []twin{
	reserveTwin(11, "sells while shut", "sale[1] ~= 'open'", "not sale[1]"),
	reserveTwin(20, "sells while cooling down", "elseif cooling_down then", "elseif false then"),
	reserveTwin(33, "accepts a late call", "now > deadline", "false"),
	reserveTwin(7, "accepts a deadline from before the clock was set back", "deadline > now + MAX_AHEAD", "false"),
	reserveTwin(33, "queues without the epoch", "{ 'epoch', epoch }", "{ 'epoch', 0 }"),
	reserveTwin(10, "ignores the time window", "window ~= 0", "false"),
	reserveTwin(8, "ignores the buyer's limit", "held + quantity > per_buyer", "false"),
	reserveTwin(33, "limit ignores the batch", "if units[buyer] == nil and held_units[i]", "if counts[i]"),
	reserveTwin(2, "oversells by one", "quantity > available - taken", "quantity > available - taken + 1"),
	reserveTwin(125, "stock ignores the batch", "quantity > available - taken", "quantity > available"),
	reserveTwin(14, "always takes one unit", "taken = taken + quantity", "taken = taken + 1"),
	reserveTwin(8, "accepts a negative quantity", "quantity < 1", "quantity == 0"),
	reserveTwin(145, "finds no replay", "elseif earlier then", "elseif false then"),
	reserveTwin(145, "replay ignores the batch", "made[field] or ", ""),
	reserveTwin(52, "ignores the fingerprint", "if body ~= fingerprint then", "if false then"),
	reserveTwin(14, "accepts a known id twice", "elseif holds[i] or fresh[id] then", "elseif fresh[id] then"),
	reserveTwin(125, "accepts an id twice in a batch", "elseif holds[i] or fresh[id] then", "elseif holds[i] then"),
	reserveTwin(423, "ignores the bound of the queue", "#accepted >= queue_room", "false"),
	reserveTwin(718, "bounds entries instead of orders", "tonumber(ARGV[2]) - tonumber(sale[8])", "tonumber(ARGV[2]) - call('XLEN', KEYS[4])"),
	reserveTwin(3, "does not count queued orders", "call('HINCRBY', KEYS[1], 'queued', #accepted)", ""),
	reserveTwin(123, "puts all orders into one entry", "from + ENTRY - 1", "#accepted"),
	reserveTwin(34, "makes an entry for each order", "from + ENTRY - 1", "from"),
	reserveTwin(134, "drops an order between two entries", "from = 1, #accepted, ENTRY", "from = 1, #accepted, ENTRY + 1"),
	reserveTwin(123, "puts an order into two entries", "from + ENTRY - 1", "from + ENTRY"),
	reserveTwin(34, "reverses the orders of an entry", "for n = from, to do\n    local i = accepted[n]\n    local at", "for n = to, from, -1 do\n    local i = accepted[n]\n    local at"),
	reserveTwin(29, "does not report known buyers", "outcome = outcome - 100", "outcome = outcome"),

	releaseTwin(23, "releases in another epoch", "tonumber(sale[2]) ~= tonumber(epoch)", "false"),
	releaseTwin(15, "releases twice", "redis.call('HDEL', holds, id)", ""),
	releaseTwin(96, "keeps the buyer's units", "redis.call('HINCRBY', buyers, buyer, -quantity)", ""),
	dropTwin(1, "drops in another epoch", "tonumber(sale[2]) ~= tonumber(epoch)", "false"),
	ackTwin(45, "removes any entry with the id", "table.concat(ids, ' ') == ARGV[i + 1]", "true"),
	ackTwin(153, "removes an entry with an undecided order", "table.concat(ids, ' ') == ARGV[i + 1]", "string.find(table.concat(ids, ' '), ARGV[i + 1], 1, true)"),
	ackTwin(218, "removes an entry with other orders", "table.concat(ids, ' ') == ARGV[i + 1]", "#table.concat(ids, ' ') == #ARGV[i + 1]"),
	ackTwin(34, "does not subtract from queued", "'queued', -orders", "'queued', 0"),
	ackTwin(34, "subtracts entries from queued", "'queued', -orders", "'queued', -#done"),
	ackTwin(8, "subtracts orders that stay", "if #ids > 0 and", "if #ids > 0 then orders = orders + #ids end if #ids > 0 and"),
	ackTwin(34, "releases all orders", "do ids[#ids + 1]", "do release_units(KEYS[1], KEYS[2], KEYS[3], fields[n]) ids[#ids + 1]"),
	ackTwin(34, "keeps the keys", "if #names > 0", "if false"),
	ackTwin(34, "removes a part of a key", "at + buyer + key", "at + buyer"),
	ackTwin(3, "does not release the first order", "for i = last + 1,", "for i = last + 2,"),
	termsTwin(18, "sets terms in another epoch", "tonumber(sale[2]) ~= tonumber(epoch)", "false"),
	termsTwin(18, "adds the whole total", "tonumber(ARGV[2]) - total", "tonumber(ARGV[2])"),
	shutTwin(30, "shuts a gate of another epoch", "tonumber(sale[2]) == tonumber(ARGV[1])", "true"),
	installTwin(5, "installs over an open gate", "sale[1] == 'open'", "false"),
	installTwin(1, "installs over another rebuild", "tonumber(sale[2] or '0') ~= tonumber(ARGV[1])", "false"),
	releaseTwin(61, "sells released units without a cooldown", "then cool_down(sale)", "then local _ = sale"),
	releaseTwin(166, "starts a cooldown at a gate with units", "if available > 0 and available <= tonumber(quantity)", "if available > 0"),
	termsTwin(23, "sells a restock without a cooldown", "then cool_down(KEYS[1])", "then local _ = more"),
	installTwin(304, "keeps the queue", "UNLINK', KEYS[4],", "UNLINK',"),
}

func TestModelCatchesEveryTwin(t *testing.T) {
	if servertest.Race {
		t.Skip("one goroutine: the race detector would find nothing")
	}
	if testing.Short() {
		t.Skip("in short mode, rapid runs too few checks for every twin")
	}
	set(t, "rapid.shrinktime", "0s")
	set(t, "rapid.checks", "500") // used if the twin's seed no longer finds the fault at once
	rdb := servertest.Connect(t, servertest.OpenRedis(t, servers.KindEmbedded).URL)
	entriesOf(t, smallEntry)
	for _, tw := range twins {
		t.Run(tw.name, func(t *testing.T) {
			tw.use(t)
			set(t, "rapid.seed", fmt.Sprint(tw.seed))
			if !fails(func(tb rapid.TB) { rapid.Check(tb, func(rt *rapid.T) { gateMatchesModel(rt, rdb, smallEntry) }) }) {
				t.Errorf("twin with %q instead of %q: the model noticed no fault, want a failure", tw.new, tw.old)
			}
		})
	}
}

// set sets a flag of rapid for one test.
func set(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	was := f.Value.String()
	check.Must(t, f.Value.Set(value))
	t.Cleanup(func() { _ = f.Value.Set(was) })
}

// fails reports whether a check fails.
func fails(check func(rapid.TB)) bool {
	tb := &quiet{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(tb)
	}()
	<-done
	return tb.failed
}

// quiet is a test that records a failure instead of reporting it.
type quiet struct{ failed bool }

func (q *quiet) Helper()               {}
func (q *quiet) Name() string          { return "twin" }
func (q *quiet) Logf(string, ...any)   {}
func (q *quiet) Log(...any)            {}
func (q *quiet) Skipf(string, ...any)  { runtime.Goexit() }
func (q *quiet) Skip(...any)           { runtime.Goexit() }
func (q *quiet) SkipNow()              { runtime.Goexit() }
func (q *quiet) Errorf(string, ...any) { q.failed = true }
func (q *quiet) Error(...any)          { q.failed = true }
func (q *quiet) Fatalf(string, ...any) { q.FailNow() }
func (q *quiet) Fatal(...any)          { q.FailNow() }
func (q *quiet) Fail()                 { q.failed = true }
func (q *quiet) Failed() bool          { return q.failed }

func (q *quiet) FailNow() {
	q.failed = true
	runtime.Goexit()
}
