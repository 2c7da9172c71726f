package wire

import (
	"errors"
	"net"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// Held data arrives after Pass, even if the client has closed its connection.
func TestHoldDeliversLate(t *testing.T) {
	w, got, dial := open(t)
	held := w.Hold(Contains("slow"))
	c := dial()
	mustFail(t, c, "slow", soon)
	<-held.Caught()
	_ = c.Close()
	mustEcho(t, dial(), "slow") // Hold holds one piece only
	<-got
	held.Pass()
	if line := check.Receive(t, "the held line", got); line != "slow" {
		t.Errorf("held line: got %q, want slow", line)
	}
}

// After Pass, the client receives the answer, and Answer reports it.
func TestHoldReportsAnswer(t *testing.T) {
	w, _, dial := open(t)
	held := w.Hold(Contains("slow"))
	c := dial()
	mustFail(t, c, "slow", soon)
	<-held.Caught()
	held.Pass()
	if answer, err := c.receive(later); answer != "slow" {
		t.Errorf("client: got %q, error %v, want slow", answer, err)
	}
	if answer := <-held.Answer(); answer != "slow\n" {
		t.Errorf("Answer: got %q, want slow", answer)
	}
}

// Close drops held data.
func TestCloseDrops(t *testing.T) {
	w, got, dial := open(t)
	held := w.Hold(Contains("slow"))
	c := dial()
	mustFail(t, c, "slow", soon)
	<-held.Caught()
	if err := w.Close(); err != nil {
		t.Errorf("close the wire: got error %v, want none", err)
	}
	if answer, err := c.receive(later); err == nil || len(got) > 0 {
		t.Errorf("after Close: got answer %q or a line at the server, want neither", answer)
	}
}

func TestHoldAllAndDrop(t *testing.T) {
	w, got, dial := open(t)
	caught := make(chan struct{}, 2)
	held := w.HoldAll(func(sent []byte) bool {
		contains := Contains("slow")(sent)
		if contains {
			caught <- struct{}{}
		}
		return contains
	})
	a, b := dial(), dial()
	for _, c := range []*client{a, b} {
		mustFail(t, c, "slow", soon)
		<-caught
	}
	held.Drop()
	for _, c := range []*client{a, b} {
		if answer, err := c.receive(later); err == nil {
			t.Errorf("after Drop: got answer %q, want an error", answer)
		}
	}
	if len(got) > 0 {
		t.Errorf("after Drop: server got %q, want nothing", <-got)
	}
	mustEcho(t, dial(), "slow")
}

func TestSilence(t *testing.T) {
	w, got, dial := open(t)
	silenced := w.Silence(1, Contains("COMMIT"))
	c := dial()
	mustEcho(t, c, "a")
	<-got
	for _, line := range []string{"COMMIT", "b"} {
		mustFail(t, c, line, soon)
	}
	if len(got) > 0 || silenced() != 1 {
		t.Errorf("silenced wire: got %d silent connections and %d lines, want 1 and 0", silenced(), len(got))
	}
	mustEcho(t, dial(), "COMMIT") // other connections work
}

func TestLoseAnswers(t *testing.T) {
	w, got, dial := open(t)
	lost := w.LoseAnswers(1, Contains("COMMIT"))
	mustFail(t, dial(), "COMMIT", later)
	if line := <-got; line != "COMMIT" || lost() != 1 {
		t.Errorf("line at the server: got %q and %d lost answers, want COMMIT and 1", line, lost())
	}
	mustEcho(t, dial(), "COMMIT")
}

func TestMuteAnswers(t *testing.T) {
	w, got, dial := open(t)
	lost := w.MuteAnswers(1, Contains("COMMIT"))
	c := dial()
	for _, line := range []string{"COMMIT", "b"} {
		var timeout net.Error
		if answer, err := c.ask(line, soon); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("request %s with a muted answer: got %q, error %v, want a timeout", line, answer, err)
		}
		if arrived := <-got; arrived != line {
			t.Errorf("line at the server: got %q, want %q", arrived, line)
		}
	}
	if lost() != 1 {
		t.Errorf("lost answers: got %d, want 1", lost())
	}
	mustEcho(t, dial(), "COMMIT") // other connections work
}
