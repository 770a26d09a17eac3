package fencepost

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// A lease is one grant of a lock to this process: until when it is valid, and whether it has ended.
//
// An end is final, whether the server reported it or the validity ended. Every read and every renewal checks the clock
// first, so a process that was paused past the end finds its lease lost whatever its timers say, and a late renewal
// never revives it.
type lease struct {
	name string
	// id is a secret: it is never logged.
	id      string
	grantID string
	// holder is the label, which a description may replace.
	holder atomic.Pointer[string]
	events *eventLog
	// token and shared are those of the last conversion. They change under mu.
	token  atomic.Uint64
	shared atomic.Bool
	// changing has an item during a conversion or a description.
	changing chan struct{}
	// description is the number of the next description; 0 if another process may have described the lease. It changes
	// by turns, as changing says.
	description uint64
	// wanted is closed when somebody waits for the lock, of which the server told.
	wanted     chan struct{}
	wantedOnce sync.Once
	// wantedMode is the mode that is waited for, set before wanted is closed.
	wantedMode LockMode
	// permits are those of a semaphore, and slot is that of one permit; otherwise 0.
	permits, slot uint32
	// onAtRisk is called, on a goroutine of its own, each time that renewals begin to fail.
	onAtRisk func()
	// ctx ends with the lease.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// releaseOnce guards the one release, which sets releaseErr and closes released when it is over.
	releaseOnce sync.Once
	released    chan struct{}
	releaseErr  error
	// answer is the last failure that a server answered to the release.
	answer atomic.Pointer[failure]

	// attachments are guarded by the mutex of the client.
	attachments attachments

	// mu is held for a few instructions only. It is locked after the mutex of the client.
	mu         sync.Mutex
	validUntil clock.Moment
	// ttl is the full TTL.
	ttl time.Duration
	// replayed is whether ttl is only what was left of it: a repeated request found the lease granted.
	replayed bool
	atRisk   bool
	// hasMaxHold is whether the request had a max_hold. It does not change.
	hasMaxHold bool
	// hasLockDelay is whether the request had a lock_delay, which a release after the end of the lease ends. It does not
	// change.
	hasLockDelay bool
	// bounded is whether the last renewal answered less than the TTL: max_hold ends the lease, and no renewal is missing.
	bounded bool
	// storeAway is whether the server has reported since the last renewal that its store is unreachable.
	storeAway bool
	// end is nil while the lease is held.
	end error
}

// attachments is what a client knows of the attachments of a lease to its sessions.
type attachments struct {
	// attempt is the number of the latest attachment, which counts over all sessions.
	attempt uint32
	// at is when it was attached last.
	at clock.Moment
	// single is whether no session attaches the lease: it does not fit and is renewed by itself, or another process
	// keeps it.
	single bool
}

// leaseState is a lease at one moment.
type leaseState struct {
	left      time.Duration
	ttl       time.Duration
	replayed  bool
	storeAway bool
	bounded   bool
	end       error
}

// isOverdue reports whether a renewal must have failed.
func (s leaseState) isOverdue() bool { return !s.bounded && isOverdue(s.left, s.ttl) }

// state checks the clock, and returns the state.
func (l *lease) state(now clock.Moment) leaseState {
	l.mu.Lock()
	ended := l.check(now)
	state := leaseState{
		left: max(l.validUntil.Sub(now), 0), ttl: l.ttl, replayed: l.replayed, storeAway: l.storeAway, bounded: l.bounded,
		end: l.end,
	}
	l.mu.Unlock()
	if ended {
		l.ended(state.end)
	}
	if state.end != nil {
		state.left = 0
		// Another goroutine may be about to: who sees the end here finds the context done as well.
		l.cancel(state.end)
	}
	return state
}

// check ends a lease whose validity is over. It returns whether that is news. The mutex is held.
func (l *lease) check(now clock.Moment) bool {
	if l.end != nil || now < l.validUntil {
		return false
	}
	reason := LossSilence
	if l.bounded {
		reason = LossMaxHold
	}
	l.end = &LostError{Name: l.name, Token: l.token.Load(), Reason: reason}
	return true
}

// update applies a change unless the lease has ended.
func (l *lease) update(now clock.Moment, change func()) {
	l.mu.Lock()
	ended := l.check(now)
	if l.end == nil {
		change()
		ended = l.end != nil
	}
	end := l.end
	l.mu.Unlock()
	if ended {
		l.ended(end)
	}
}

// ended tells of the end, once.
func (l *lease) ended(end error) {
	var loss *LostError
	if errors.As(end, &loss) {
		l.events.lost(l, loss)
	}
	l.cancel(end)
}

// renewed applies a renewal. The end of the validity only moves forward.
func (l *lease) renewed(r reading) {
	until := r.validUntil()
	recovered, reached, left := false, false, time.Duration(0)
	l.update(r.read, func() {
		// What is left of a repeated request says nothing of the TTL. Without a max_hold, another process that knows the
		// lease has renewed it with a lower TTL.
		bounded := l.hasMaxHold && !l.replayed && r.ttl < l.ttl
		reached, l.bounded = bounded && !l.bounded, bounded
		l.ttl, l.replayed = max(l.ttl, r.ttl), false
		if until > l.validUntil {
			recovered = l.atRisk
			l.validUntil, l.atRisk, l.storeAway = until, false, false
		}
		left = l.validUntil.Sub(r.read)
	})
	if recovered {
		l.events.recovered(l)
	}
	if reached {
		l.events.bounded(l, left)
	}
}

// renewalsFail records that renewals fail, with the store as the cause or not.
func (l *lease) renewalsFail(now clock.Moment, storeAway bool, cause string) {
	news, left := false, time.Duration(0)
	l.update(now, func() {
		news, left = !l.atRisk, l.validUntil.Sub(now)
		l.atRisk = true
		l.storeAway = l.storeAway || storeAway
	})
	if !news {
		return
	}
	l.events.atRisk(l, left, cause)
	if l.onAtRisk != nil {
		go l.onAtRisk()
	}
}

// finish ends the lease, unless it has ended before.
func (l *lease) finish(now clock.Moment, end error) { l.update(now, func() { l.end = end }) }

// lost is the error of a loss that the server reports.
func (l *lease) lost(end pb.LeaseEnd, successor uint64) *LostError {
	return &LostError{Name: l.name, Token: l.token.Load(), Reason: lossReason(end), SuccessorToken: successor}
}
