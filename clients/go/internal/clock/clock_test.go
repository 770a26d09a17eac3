package clock

import (
	"testing"
	"time"
)

func TestRunsForward(t *testing.T) {
	first := Now()
	second := Now()
	if second < first {
		t.Fatalf("%d after %d", second, first)
	}
	if got := first.Add(time.Second).Sub(first); got != time.Second {
		t.Fatalf("got %v", got)
	}
}
