//go:build race

package locktest

// raceDetector: what only costs time is done fewer times.
const raceDetector = true
