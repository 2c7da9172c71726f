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

// A twin is a script of ours with one guard taken out: the proof that a check
// can fail is that it fails on the twin.
type twin struct {
	seed     uint64 // with which the model notices at once
	name     string
	script   **redis.Script
	source   string // of the whole script
	old, new string
}

// use puts the twin in the place of the right script until the test ends.
// Tests that use one must not run in parallel.
func (tw twin) use(t testing.TB) {
	t.Helper()
	if strings.Count(tw.source, tw.old) != 1 {
		t.Fatalf("%s: the script does not hold %q once", tw.name, tw.old)
	}
	right := *tw.script
	*tw.script = redis.NewScript(strings.Replace(tw.source, tw.old, tw.new, 1))
	t.Cleanup(func() { *tw.script = right })
}

// smallEntry is how many orders are in an entry where the script's own number
// would be more than a test can look through.
const smallEntry = 2

// reserveSource is reserve.lua with pauses of up to two hours, so that the model, which
// has no clock, decides how long a pause lasts.
var reserveSource = strings.Replace(lua("replid", "cooldown", "reserve"), "local COOLDOWN = 101", "local COOLDOWN = 7200000", 1)

func entryTwin(entry int) twin {
	return twin{0, "", &reserveScript, reserveSource, fmt.Sprint("local ENTRY = ", fullEntry), fmt.Sprint("local ENTRY = ", entry)}
}

// entriesOf cuts the queue into entries of so many orders until the test ends.
func entriesOf(t testing.TB, entry int) {
	t.Helper()
	entryTwin(entry).use(t)
}

// reserveTwin makes small entries, so that its mistakes show there too.
func reserveTwin(seed uint64, name, old, new string) twin {
	small := entryTwin(smallEntry)
	return twin{seed, name, &reserveScript, strings.Replace(reserveSource, small.old, small.new, 1), old, new}
}

func releaseTwin(seed uint64, name, old, new string) twin {
	return twin{seed, name, &releaseScript, lua("epoch", "cooldown", "release_units", "release"), old, new}
}

func confirmTwin(seed uint64, name, old, new string) twin {
	return twin{seed, name, &confirmScript, lua("epoch", "confirm"), old, new}
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

// Each of these changes one thing, and the model must notice.
var twins = []twin{
	reserveTwin(11, "sells while shut", "sale[1] ~= 'open'", "not sale[1]"),
	reserveTwin(20, "sells while cooling down", "elseif cooling_down then", "elseif false then"),
	reserveTwin(33, "too late", "now > deadline", "false"),
	reserveTwin(7, "deadline of before the clock was set back", "deadline > now + LATE", "false"),
	reserveTwin(33, "entry without its epoch", "{ 'epoch', epoch }", "{ 'epoch', 0 }"),
	reserveTwin(10, "no window", "window ~= 0", "false"),
	reserveTwin(8, "no limit", "held + quantity > per_buyer", "false"),
	reserveTwin(33, "limit forgets the batch", "if units[buyer] == nil and counts[i]", "if counts[i]"),
	reserveTwin(2, "oversell by one", "quantity > available - taken", "quantity > available - taken + 1"),
	reserveTwin(125, "stock forgets the batch", "quantity > available - taken", "quantity > available"),
	reserveTwin(14, "always takes 1", "taken = taken + quantity", "taken = taken + 1"),
	reserveTwin(8, "negative quantity", "quantity < 1", "quantity == 0"),
	reserveTwin(145, "no replay", "elseif earlier then", "elseif false then"),
	reserveTwin(145, "replay forgets the batch", "made[field] or ", ""),
	reserveTwin(52, "no fingerprint", "if body ~= fingerprint then", "if false then"),
	reserveTwin(14, "same id again", "elseif holds[i] or fresh[id] then", "elseif fresh[id] then"),
	reserveTwin(125, "same id in the batch", "elseif holds[i] or fresh[id] then", "elseif holds[i] then"),
	reserveTwin(423, "unbounded queue", "#accepted >= room", "false"),
	reserveTwin(718, "bound in entries", "tonumber(ARGV[2]) - tonumber(sale[8])", "tonumber(ARGV[2]) - call('XLEN', KEYS[4])"),
	reserveTwin(3, "does not count the queue", "call('HINCRBY', KEYS[1], 'queued', #accepted)", ""),
	reserveTwin(123, "one entry for all", "from + ENTRY - 1", "#accepted"),
	reserveTwin(34, "an entry for each", "from + ENTRY - 1", "from"),
	reserveTwin(134, "an order between two entries", "from = 1, #accepted, ENTRY", "from = 1, #accepted, ENTRY + 1"),
	reserveTwin(123, "an order in two entries", "from + ENTRY - 1", "from + ENTRY"),
	reserveTwin(34, "orders of an entry change places", "for n = from, to do\n    local i = accepted[n]\n    local at", "for n = to, from, -1 do\n    local i = accepted[n]\n    local at"),
	reserveTwin(29, "does not know its buyers", "outcome = outcome - 100", "outcome = outcome"),

	releaseTwin(23, "release of another epoch", "tonumber(sale[2]) ~= tonumber(epoch)", "false"),
	releaseTwin(15, "releases twice", "redis.call('HDEL', holds, id)", ""),
	releaseTwin(96, "forgets the buyer's count", "redis.call('HINCRBY', buyers, buyer, -quantity)", ""),
	confirmTwin(1, "confirm of another epoch", "tonumber(sale[2]) ~= tonumber(epoch)", "false"),
	ackTwin(45, "acknowledges whatever has the id", "table.concat(ids, ' ') == ARGV[i + 1]", "true"),
	ackTwin(153, "one order not judged", "table.concat(ids, ' ') == ARGV[i + 1]", "string.find(table.concat(ids, ' '), ARGV[i + 1], 1, true)"),
	ackTwin(218, "acknowledges orders in any order", "table.concat(ids, ' ') == ARGV[i + 1]", "#table.concat(ids, ' ') == #ARGV[i + 1]"),
	ackTwin(34, "does not count the queue down", "'queued', -orders", "'queued', 0"),
	ackTwin(34, "counts entries down", "'queued', -orders", "'queued', -#done"),
	ackTwin(8, "counts down what it leaves", "if #ids > 0 and", "if #ids > 0 then orders = orders + #ids end if #ids > 0 and"),
	ackTwin(34, "gives back unasked", "do ids[#ids + 1]", "do release_units(KEYS[1], KEYS[2], KEYS[3], fields[n]) ids[#ids + 1]"),
	ackTwin(34, "keeps the keys", "if #names > 0", "if false"),
	ackTwin(34, "forgets a key by half", "at + buyer + key", "at + buyer"),
	ackTwin(3, "does not give all back", "for i = last + 1,", "for i = last + 2,"),
	termsTwin(18, "terms of another epoch", "tonumber(sale[2]) ~= tonumber(epoch)", "false"),
	termsTwin(18, "a restock resets", "tonumber(ARGV[2]) - total", "tonumber(ARGV[2])"),
	shutTwin(30, "shuts another epoch", "tonumber(sale[2]) == tonumber(ARGV[1])", "true"),
	installTwin(5, "installs over an open gate", "sale[1] == 'open'", "false"),
	installTwin(1, "installs over another rebuild", "tonumber(sale[2] or '0') ~= tonumber(ARGV[1])", "false"),
	releaseTwin(61, "sells at once what came back", "then cool_down(sale)", "then local _ = sale"),
	releaseTwin(166, "cools down without need", "if available > 0 and available <= tonumber(quantity)", "if available > 0"),
	termsTwin(23, "sells a restock at once", "then cool_down(KEYS[1])", "then local _ = more"),
	installTwin(304, "keeps the queue", "UNLINK', KEYS[4],", "UNLINK',"),
}

func TestModelCatchesEveryTwin(t *testing.T) {
	if servertest.Race {
		t.Skip("one goroutine, the same checks by the same seed: nothing for the race detector to see")
	}
	if testing.Short() {
		t.Skip("rapid makes a fifth of the checks, too few for every twin")
	}
	set(t, "rapid.shrinktime", "0s")
	set(t, "rapid.checks", "500") // where the twin's seed no longer finds it at once
	rdb := servertest.Connect(t, servertest.OpenRedis(t, servers.KindEmbedded).URL)
	entriesOf(t, smallEntry)
	for _, tw := range twins {
		t.Run(tw.name, func(t *testing.T) {
			tw.use(t)
			set(t, "rapid.seed", fmt.Sprint(tw.seed))
			if !fails(func(tb rapid.TB) { rapid.Check(tb, func(rt *rapid.T) { gateIsTheModel(rt, rdb, smallEntry) }) }) {
				t.Errorf("%q instead of %q passes for right", tw.new, tw.old)
			}
		})
	}
}

// set is a flag of rapid's for the length of one test.
func set(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	was := f.Value.String()
	check.Must(t, f.Value.Set(value))
	t.Cleanup(func() { _ = f.Value.Set(was) })
}

// fails tells whether a check that is expected to fail does.
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

// quiet is a test whose failure is what one wants.
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
