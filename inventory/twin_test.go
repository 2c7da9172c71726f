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
)

// A twin is a script of ours with one guard taken out: the proof that a check
// can fail is that it fails on the twin.
type twin struct {
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

func entryTwin(entry int) twin {
	return twin{"", &reserveScript, reserveLua, fmt.Sprint("local ENTRY = ", fullEntry), fmt.Sprint("local ENTRY = ", entry)}
}

// entriesOf cuts the queue into entries of so many orders until the test ends.
func entriesOf(t testing.TB, entry int) {
	t.Helper()
	entryTwin(entry).use(t)
}

// reserveTwin makes small entries, so that its mistakes show there too.
func reserveTwin(name, old, new string) twin {
	small := entryTwin(smallEntry)
	return twin{name, &reserveScript, strings.Replace(reserveLua, small.old, small.new, 1), old, new}
}

func releaseTwin(name, old, new string) twin {
	return twin{name, &releaseScript, epochLua + restLua + giveBackLua + releaseLua, old, new}
}

func confirmTwin(name, old, new string) twin {
	return twin{name, &confirmScript, epochLua + confirmLua, old, new}
}

func ackTwin(name, old, new string) twin {
	return twin{name, &ackScript, restLua + giveBackLua + ackLua, old, new}
}

func termsTwin(name, old, new string) twin {
	return twin{name, &termsScript, epochLua + restLua + termsLua, old, new}
}

func shutTwin(name, old, new string) twin {
	return twin{name, &shutScript, shutLua, old, new}
}

func installTwin(name, old, new string) twin {
	return twin{name, &installScript, restLua + installLua, old, new}
}

// Each of these changes one thing, and the model must notice.
var twins = []twin{
	reserveTwin("sells while shut", "sale[1] ~= 'open'", "not sale[1]"),
	reserveTwin("another epoch", "tonumber(ARGV[1]) ~= epoch", "false"),
	reserveTwin("sells what rests", "elseif resting then", "elseif false then"),
	reserveTwin("too late", "now > tonumber(ARGV[2])", "false"),
	reserveTwin("no window", "window ~= 0", "false"),
	reserveTwin("no limit", "held + quantity > per_buyer", "false"),
	reserveTwin("limit forgets the batch", "if units[buyer] == nil and counts[i]", "if counts[i]"),
	reserveTwin("oversell by one", "quantity > available - taken", "quantity > available - taken + 1"),
	reserveTwin("stock forgets the batch", "quantity > available - taken", "quantity > available"),
	reserveTwin("always takes 1", "taken = taken + quantity", "taken = taken + 1"),
	reserveTwin("negative quantity", "quantity < 1", "quantity == 0"),
	reserveTwin("no replay", "elseif earlier then", "elseif false then"),
	reserveTwin("replay forgets the batch", "made[name] or ", ""),
	reserveTwin("no fingerprint", "if body ~= print then", "if false then"),
	reserveTwin("same id again", "elseif holds[i] or fresh[id] then", "elseif fresh[id] then"),
	reserveTwin("same id in the batch", "elseif holds[i] or fresh[id] then", "elseif holds[i] then"),
	reserveTwin("unbounded queue", "#accepted >= room", "false"),
	reserveTwin("bound in entries", "tonumber(ARGV[3]) - tonumber(sale[8])", "tonumber(ARGV[3]) - call('XLEN', KEYS[4])"),
	reserveTwin("does not count the queue", "call('HINCRBY', KEYS[1], 'queued', #accepted)", ""),
	reserveTwin("one entry for all", "from + ENTRY - 1", "#accepted"),
	reserveTwin("an entry for each", "from + ENTRY - 1", "from"),
	reserveTwin("an order between two entries", "from = 1, #accepted, ENTRY", "from = 1, #accepted, ENTRY + 1"),
	reserveTwin("an order in two entries", "from + ENTRY - 1", "from + ENTRY"),
	reserveTwin("orders of an entry change places", "entry[2 * (n - from) + 1] = id", "entry[2 * (to - n) + 1] = id"),
	reserveTwin("does not know its buyers", "outcome = outcome - 100", "outcome = outcome"),

	releaseTwin("release of another epoch", "tonumber(sale[2]) ~= tonumber(epoch)", "false"),
	releaseTwin("releases twice", "redis.call('HDEL', holds, id)", ""),
	releaseTwin("forgets the buyer's count", "redis.call('HINCRBY', buyers, buyer, -quantity)", ""),
	confirmTwin("confirm of another epoch", "tonumber(sale[2]) ~= tonumber(epoch)", "false"),
	ackTwin("acknowledges whatever has the id", "table.concat(ids, ' ') == ARGV[i + 1]", "true"),
	ackTwin("one order not judged", "table.concat(ids, ' ') == ARGV[i + 1]", "string.find(table.concat(ids, ' '), ARGV[i + 1], 1, true)"),
	ackTwin("acknowledges orders in any order", "table.concat(ids, ' ') == ARGV[i + 1]", "#table.concat(ids, ' ') == #ARGV[i + 1]"),
	ackTwin("does not count the queue down", "'queued', -orders", "'queued', 0"),
	ackTwin("counts entries down", "'queued', -orders", "'queued', -#done"),
	ackTwin("counts down what it leaves", "if #ids > 0 and", "if #ids > 0 then orders = orders + #ids end if #ids > 0 and"),
	ackTwin("gives back unasked", "do ids[#ids + 1]", "do give_back(KEYS[1], KEYS[2], KEYS[3], fields[n]) ids[#ids + 1]"),
	ackTwin("keeps the keys", "if #acked > 0", "if false"),
	ackTwin("forgets a key by half", "'/' .. string.sub(rest, buyer + 1, buyer + key)", "'/' .. string.sub(rest, buyer + 1, buyer + 1)"),
	ackTwin("does not give all back", "for i = last + 1,", "for i = last + 2,"),
	termsTwin("terms of another epoch", "tonumber(sale[2]) ~= tonumber(epoch)", "false"),
	termsTwin("a restock resets", "tonumber(ARGV[2]) - total", "tonumber(ARGV[2])"),
	shutTwin("shuts another epoch", "tonumber(sale[2] or '0') ~= tonumber(ARGV[1])", "false"),
	installTwin("installs over an open gate", "sale[1] == 'open'", "false"),
	installTwin("installs over another rebuild", "tonumber(sale[2] or '0') ~= tonumber(ARGV[1])", "false"),
	releaseTwin("sells at once what came back", "then rest(sale)", "then local _ = sale"),
	releaseTwin("rests without need", "if available > 0 and available <= tonumber(quantity)", "if available > 0"),
	termsTwin("sells a restock at once", "then rest(KEYS[1])", "then local _ = more"),
	installTwin("sells at once what a rebuild brings", "then rest(KEYS[1])", "then local _ = sale"),
	installTwin("installs over a queue", "redis.call('XLEN', KEYS[4]) > 0", "false"),
}

func TestModelCatchesEveryTwin(t *testing.T) {
	if servertest.Race {
		t.Skip("one goroutine, the same checks by the same seed: nothing for the race detector to see")
	}
	if testing.Short() {
		t.Skip("rapid makes a fifth of the checks, too few for every twin")
	}
	set(t, "rapid.shrinktime", "0s")
	set(t, "rapid.seed", "1")
	set(t, "rapid.checks", "500")
	rdb := connect(t, servertest.OpenRedis(t, servers.KindEmbedded).URL)
	entriesOf(t, smallEntry)
	for _, tw := range twins {
		t.Run(tw.name, func(t *testing.T) {
			tw.use(t)
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
	check(t, f.Value.Set(value))
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
