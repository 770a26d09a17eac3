package fencepost

import (
	"context"
	"errors"
	"time"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// startRelease ends a lease and begins its release, once. From here on it is not renewed, except by a session that has
// not sent the release yet. The result of the release of a lease that is lost is known at once.
func (c *Client) startRelease(held *lease, end error) {
	held.releaseOnce.Do(func() {
		op := releaseOperation(held)
		// Locked before the lease ends: the keeper forgets leases that have ended, and with the last one the session.
		c.mu.Lock()
		defer c.mu.Unlock()
		now := clock.Now()
		held.finish(now, end)
		how := held.state(now).end
		var lost *LostError
		if errors.As(how, &lost) {
			held.releaseErr = lost
			close(held.released)
			// The server has reported the end: there is nothing to release but the lock_delay after it.
			if lost.Reason != LossSilence && lost.Reason != LossMaxHold && !held.hasLockDelay {
				c.forget(held)
				return
			}
		}
		// Queued before the caller goes on, so that the release goes before an acquire that the caller sends next; and
		// before the lease is forgotten, so that the session stays for it.
		if !c.queue(op) {
			if lost == nil {
				held.releaseErr = ErrClosed
				close(held.released)
			}
			return
		}
		c.forget(held)
		c.releases++
		c.spawn(func() {
			err := c.finishRelease(held, op)
			c.released()
			if lost == nil {
				held.releaseErr = err
				close(held.released)
			}
		})
	})
}

// released notes that a release has its result. The session on which it was to be repeated may end now.
func (c *Client) released() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releases--
	if c.releases == 0 {
		c.notify()
	}
}

// finishRelease waits for the answer, and repeats the release until the lease must have ended; for retryFor if it is over
// by the local clock.
func (c *Client) finishRelease(held *lease, op *operation) error {
	held.mu.Lock()
	left := held.validUntil.Sub(clock.Now())
	if left > 0 {
		left += held.ttl
	} else {
		left = retryFor
	}
	held.mu.Unlock()
	var pauses retryPauses
	b := bound{ctx: context.Background(), stop: c.shut, until: clock.Now().Add(max(left, callTimeout))}
	for {
		failed, err := c.transmit(op, b)
		switch {
		case err != nil:
			return &OutcomeUnknownError{Name: held.name, Cause: err}
		case failed == nil:
			return releaseResult(held, op.answer.GetRelease())
		case failed.isAnswer():
			held.answer.Store(failed)
		case !failed.isTransient() && failed.reason != "SESSION_FULL":
			c.stopRenewals(held)
			c.events.gaveUp(held.name, failed)
			return failed.public(held.name)
		}
		pause := pauses.next(failed.retryAfter)
		failed = failed.after(held.answer.Load())
		if b.until.Sub(clock.Now()) <= pause {
			c.stopRenewals(held)
			c.events.gaveUp(held.name, failed)
			return &OutcomeUnknownError{Name: held.name, Cause: failed}
		}
		if err := b.pause(pause); err != nil {
			return &OutcomeUnknownError{Name: held.name, Cause: failed}
		}
		op = releaseOperation(held)
		if !c.submit(op) {
			return &OutcomeUnknownError{Name: held.name, Cause: failed}
		}
	}
}

// stopRenewals stops the renewals of a lease that could not be released.
func (c *Client) stopRenewals(held *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detachElsewhere(held, nil)
}

func releaseResult(held *lease, answer *pb.ReleaseResponse) error {
	if answer.GetEnd() == pb.LeaseEnd_LEASE_END_RELEASED {
		return nil
	}
	return held.lost(answer.GetEnd(), answer.GetSuccessorToken())
}

// waitForRelease waits for the result of a release, within the bounds of the caller.
func waitForRelease(ctx context.Context, held *lease) error {
	select {
	case <-held.released: // even if ctx is done
		return held.releaseErr
	default:
	}
	timer := time.NewTimer(retryFor)
	defer timer.Stop()
	select {
	case <-held.released:
		return held.releaseErr
	case <-timer.C:
		late := errors.New("no answer in time")
		return &OutcomeUnknownError{Name: held.name, Cause: withAnswer(late, held.answer.Load())}
	case <-ctx.Done():
		return &OutcomeUnknownError{Name: held.name, Cause: withAnswer(context.Cause(ctx), held.answer.Load())}
	}
}

// renewAlone renews one lease by itself, when it does not fit on the session, until it ends.
func (c *Client) renewAlone(held *lease) {
	for {
		state := held.state(clock.Now())
		if state.end != nil {
			return
		}
		op := renewOperation(held)
		if !c.submit(op) {
			return
		}
		b := bound{ctx: held.ctx, stop: c.shut, until: clock.Now().Add(state.left)}
		failed, err := c.transmit(op, b)
		if err != nil {
			return
		}
		if failed != nil && held.state(clock.Now()).isOverdue() {
			held.renewalsFail(clock.Now(), failed.reason != "", failed.Error())
		}
		if b.pause(state.ttl/4+randomPart(state.ttl/16)) != nil {
			return
		}
	}
}
