package fencepost

import (
	"context"
	"time"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// abandon cleans up behind an acquire whose caller is gone. It is cancelled on its session and still answered: if the
// grant came first, the lease is released. Without an answer, the next attempt either withdraws the request from the
// queue or gets the lease, which is then released. All of it ends within retryFor and two call timeouts.
func (c *Client) abandon(op *operation, next *pb.AcquireRequest, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending.remove(op) {
		// This transmission was never sent, and never will be.
		if open {
			next.Attempt--
			c.spawn(func() { c.withdraw(next) })
		}
		return
	}
	if op.session != nil && !op.session.ended {
		op.session.outbox.toCancel = append(op.session.outbox.toCancel, op.number)
		op.session.notify()
	}
	c.spawn(func() {
		if c.waitForCancelled(op) {
			return
		}
		if op.failure == nil || op.failure.mayHaveEffect() || open {
			c.withdraw(next)
		}
	})
}

// waitForCancelled waits for the answer to a cancelled acquire. It reports whether nothing is left to do.
func (c *Client) waitForCancelled(op *operation) bool {
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case <-op.done:
	case <-timer.C:
	case <-c.shut:
	}
	c.mu.Lock()
	select {
	case <-op.done:
	default:
		op.ignored = true
		c.mu.Unlock()
		return false
	}
	c.mu.Unlock()
	if op.granted != nil {
		c.startRelease(op.granted, ErrReleased)
	}
	return op.failure == nil
}

// withdraw ends a request that may wait or hold the lock, by its next attempt.
func (c *Client) withdraw(request *pb.AcquireRequest) {
	var pauses retryPauses
	b := bound{ctx: context.Background(), stop: c.shut, until: clock.Now().Add(retryFor)}
	for {
		op := acquireOperation(&acquisition{request: request, ctx: b.ctx})
		if !c.submit(op) {
			return
		}
		failed, err := c.transmit(op, b)
		if err != nil {
			return
		}
		if failed == nil {
			if op.granted != nil {
				c.startRelease(op.granted, ErrReleased)
			}
			return
		}
		pause := pauses.next(failed.retryAfter)
		mayPass := failed.isTransient() || failed.isOverQuota() || failed.reason == "OVERTAKEN"
		if !mayPass || b.until.Sub(clock.Now()) <= pause {
			c.events.gaveUp(request.GetLockName(), failed)
			return
		}
		if b.pause(pause) != nil {
			return
		}
		request = nextAttempt(request)
	}
}
