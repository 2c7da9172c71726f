//go:build race

package loadtest

// raceDetector: the tests work several times longer.
const raceDetector = true
