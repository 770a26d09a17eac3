package fencepost

import (
	"time"

	"github.com/fencepost/fencepost-go/internal/clock"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// A reading is what an answer says about a lease, and when its request was sent.
//
//	valid until = sent + held for + ttl - drift - margin
//
// The server counts the TTL from heldFor after the arrival of the request, which is after it was sent: whatever the
// network did, the lease ends later on the server. The drift allows for clocks that run at different rates, the margin
// for the time between a check and the action that follows.
type reading struct {
	// sent is when the transmission that was answered was sent, and read when the answer was received.
	sent, read clock.Moment
	// heldFor is how long the server held the request before it asked its store.
	heldFor time.Duration
	// ttl is the time left then.
	ttl time.Duration
}

const marginMin = facts.MarginMinMS * time.Millisecond

func (r reading) validUntil() clock.Moment {
	// The server cannot have held the request for longer than the whole exchange took. After a long wait a faster clock
	// of the server may report more; the holder's clock decides.
	heldFor := min(r.heldFor, max(r.read.Sub(r.sent), 0))
	keptBack := r.ttl/facts.DriftDivisor + max(r.ttl/facts.MarginDivisor, marginMin)
	return r.sent.Add(heldFor + r.ttl - keptBack)
}

// isOverdue reports whether so little is left of a lease that a renewal must have failed. A lease is renewed when a
// third of its TTL has passed, with the next beat (a ninth); here more than half of it has.
func isOverdue(left, ttl time.Duration) bool { return left < ttl/20*7 }

// isLate reports whether so little is left of a lease on arrival that it has to be renewed before it is used.
func isLate(left, ttl time.Duration) bool { return left < ttl/facts.LateDivisor }

// answerTime is how long one of so many servers gets to answer a call that does not wait. Each of several servers gets
// a part of the time: one that hangs must not use up that of the others.
func answerTime(callTimeout, retryFor time.Duration, servers int) time.Duration {
	if servers == 1 {
		return callTimeout
	}
	return min(callTimeout, max(retryFor/time.Duration(servers), answerTimeMin))
}

// Times of the session, all derived from the shortest TTL of the leases on it.

// tickFor is the interval of checks, which bounds the time to notice that a suspended machine has resumed.
func tickFor(shortest time.Duration) time.Duration {
	return min(max(shortest/20, 10*time.Millisecond), time.Second)
}

// answerTimeout is how long a new session, or a new attachment, may take to answer.
func answerTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/6, 250*time.Millisecond), 5*time.Second)
}

// reconnectPause is the longest pause before the next session is opened; a random part of it is taken, so that the
// clients of a stopped server do not all connect to the next one at once. It doubles with each round over the servers.
func reconnectPause(shortest time.Duration, round int) time.Duration {
	pause := time.Duration(min(facts.ReconnectFirstMS<<min(round, 10), facts.ReconnectMaxMS)) * time.Millisecond
	if shortest > 0 {
		pause = max(min(pause, shortest/8), 10*time.Millisecond)
	}
	return pause
}
