// Package bare is for tests: the two stores of a sale, and keepers whose passes a
// test makes itself.
package bare
