package wire

import (
	"errors"
	"net"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// What is held arrives although its sender has gone.
func TestHoldDeliversLate(t *testing.T) {
	w, got, dial := open(t)
	held := w.Hold(Contains("slow"))
	c := dial()
	mustFail(t, c, "slow", soon)
	<-held.Caught()
	_ = c.Close()
	mustEcho(t, dial(), "slow") // one piece only
	<-got
	held.Pass()
	if line := check.Receive(t, "what was held arrives", got); line != "slow" {
		t.Errorf("the server got %q", line)
	}
}

// Who is still there gets the answer, and so does the one that held it.
func TestHoldTellsTheAnswer(t *testing.T) {
	w, _, dial := open(t)
	held := w.Hold(Contains("slow"))
	c := dial()
	mustFail(t, c, "slow", soon)
	<-held.Caught()
	held.Pass()
	if answer, err := c.hear(later); answer != "slow" {
		t.Errorf("%q, %v", answer, err)
	}
	if answer := <-held.Answer(); answer != "slow\n" {
		t.Errorf("the answer was %q", answer)
	}
}

// What is still held when the wire is closed never arrives.
func TestCloseDrops(t *testing.T) {
	w, got, dial := open(t)
	held := w.Hold(Contains("slow"))
	c := dial()
	mustFail(t, c, "slow", soon)
	<-held.Caught()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if answer, err := c.hear(later); err == nil || len(got) > 0 {
		t.Errorf("answered %q after the end", answer)
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
		if answer, err := c.hear(later); err == nil {
			t.Errorf("answered %q after a drop", answer)
		}
	}
	if len(got) > 0 {
		t.Errorf("the server got %q", <-got)
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
		t.Errorf("%d connections went silent, %d lines arrived", silenced(), len(got))
	}
	mustEcho(t, dial(), "COMMIT") // others go on
}

func TestLoseAnswers(t *testing.T) {
	w, got, dial := open(t)
	lost := w.LoseAnswers(1, Contains("COMMIT"))
	mustFail(t, dial(), "COMMIT", later)
	if line := <-got; line != "COMMIT" || lost() != 1 {
		t.Errorf("the server got %q, %d answers lost", line, lost())
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
			t.Errorf("%s: %q, %v; want silence", line, answer, err)
		}
		if arrived := <-got; arrived != line {
			t.Errorf("the server got %q, want %q", arrived, line)
		}
	}
	if lost() != 1 {
		t.Errorf("%d answers lost", lost())
	}
	mustEcho(t, dial(), "COMMIT") // others go on
}
