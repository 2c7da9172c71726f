package servertest

import (
	"flag"
	"os"
)

// Thorough reports whether this run takes its time to look for what is rare: if
// real servers are required, and the race detector does not watch.
func Thorough() bool { return os.Getenv("FLASHSALE_TEST_REAL") == "require" && !Race }

// Few has rapid make fewer checks unless the run is Thorough or the command line
// says how many. It is for TestMain, and parses the flags.
func Few(checks string) {
	flag.Parse()
	given := Thorough()
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		_ = flag.Set("rapid.checks", checks)
	}
	_ = flag.Set("rapid.nofailfile", "true") // the seed is in the message
}
