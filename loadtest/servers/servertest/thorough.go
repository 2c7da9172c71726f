package servertest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

// Thorough reports whether this run also looks for rare failures, which takes longer. A
// run is thorough if real servers are required and the race detector is off.
func Thorough() bool { return os.Getenv("FLASHSALE_TEST_REAL") == "require" && !Race }

// Prepare parses the flags of the test binary and makes the garbage collector run less
// often. Main calls Prepare. A TestMain that does not call Main, such as one that ends with
// goleak.VerifyTestMain, calls Prepare first.
//
// Prepare sets these flags, unless the command line or TestMain has set them:
//
//   - -parallel is at least six, or four under the race detector, because most tests wait
//     more than they work.
//   - -rapid.checks is 30 instead of 100, unless the run is Thorough.
//   - -rapid.nofailfile is true: a failed property prints its seed and writes no file.
func Prepare() {
	flag.Parse()
	debug.SetGCPercent(400) // tests have small heaps
	parallel := 6
	if Race {
		parallel = 4
	}
	byDefault("test.parallel", fmt.Sprint(max(parallel, runtime.GOMAXPROCS(0))))
	if flag.Lookup("rapid.checks") == nil {
		return // the package does not use rapid
	}
	if !Thorough() {
		byDefault("rapid.checks", "30")
	}
	byDefault("rapid.nofailfile", "true")
}

// byDefault sets a flag that has not been set yet.
func byDefault(name, value string) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}
