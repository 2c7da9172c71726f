package lock

import "testing"

// Hashes of the scripts, by which a proxy tells the commands apart.
func Hashes() (acquire, renew, release string) {
	sc := newScripts()
	return sc.acquire.Hash(), sc.renew.Hash(), sc.release.Hash()
}

// StartEmbedded and StartReal start a Redis for the rest of the test.
var StartEmbedded, StartReal = start(embedded), start(func(t *testing.T) server { return real(t) })

func start(f func(*testing.T) server) func(*testing.T) string {
	return func(t *testing.T) string { return f(t).addr }
}
