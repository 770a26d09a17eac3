package fencepost

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fencepost/fencepost-go/internal/clock"
)

// unsentCheck is the interval at which a call looks whether its operation has been sent.
const unsentCheck = time.Second

// A bound says when to stop waiting for one transmission.
type bound struct {
	// ctx and stop end it from outside. The operation goes on.
	ctx  context.Context
	stop <-chan struct{}
	// until is when an operation that no session has sent is given up.
	until clock.Moment
	// onPosition is told the queue position.
	onPosition func(ahead int)
}

// submit queues an operation for the session. It reports false if the client is shut.
func (c *Client) submit(op *operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue(op)
}

// queue is submit with the mutex held.
func (c *Client) queue(op *operation) bool {
	if c.isShut {
		return false
	}
	c.pending.add(op)
	c.idleSince = 0
	c.notifySessions()
	if c.current == nil || c.current.ended {
		c.notify()
	}
	c.ensureKeeper()
	return true
}

// notifySessions wakes the senders of both sessions. The mutex is held.
func (c *Client) notifySessions() {
	for _, open := range []*session{c.current, c.previous} {
		if open != nil {
			open.notify()
		}
	}
}

// takePrompt takes a release or a renewal for a session to send. The mutex is held.
func (c *Client) takePrompt(s *session, now clock.Moment) *operation {
	if !c.carriesPrompt(s, now) || s.outbox.prompt >= promptMax {
		return nil
	}
	return c.pending.take(&c.pending.prompt)
}

// carriesPrompt reports whether a session carries releases and renewals: the current one, and the previous one until
// that can. If only the previous one works, the current one leaves them to it: a server that drains refuses new
// sessions, and ends once no lease is left on the old ones.
func (c *Client) carriesPrompt(s *session, now clock.Moment) bool {
	current, previous := c.current, c.previous
	if s == current {
		return current.works() || previous == nil || !previous.works() || previous.isSilent(now, previous.pace(now))
	}
	return s == previous && (!current.works() || current.suspect)
}

// takeAcquire takes an acquire for a session to send: the current one unless it drains. The mutex is held.
func (c *Client) takeAcquire(s *session) *operation {
	if s != c.current || s.draining || s.outbox.acquires >= acquiresMax {
		return nil
	}
	return c.pending.take(&c.pending.acquires)
}

// transmit waits for the answer to an operation that was submitted. It returns nil if there is one, and otherwise why
// there is none. The error says that the bound's context or channel ended the wait; the operation goes on then.
func (c *Client) transmit(op *operation, b bound) (*failure, error) {
	timer := time.NewTimer(min(silenceMax, c.servers.answerTime()))
	defer timer.Stop()
	for {
		select {
		case <-op.done:
			return op.failure, nil
		case ahead := <-op.position:
			if b.onPosition != nil {
				b.onPosition(ahead)
			}
			continue
		case <-b.ctx.Done():
			return nil, context.Cause(b.ctx)
		case <-b.stop:
			return nil, ErrClosed
		case <-timer.C:
		}
		left, failed := c.checkOverdue(op, b.until, clock.Now())
		if failed != nil {
			return failed, nil
		}
		timer.Reset(left)
	}
}

// checkOverdue gives up an operation that is overdue, and otherwise returns the time until the next check.
func (c *Client) checkOverdue(op *operation, until, now clock.Moment) (time.Duration, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-op.done:
		return 0, nil
	default:
	}
	if op.element != nil {
		if left := until.Sub(now); left > 0 {
			// The session that carries it may have become another one, which no one else would wake.
			c.notifySessions()
			return min(left, unsentCheck), nil
		}
		c.pending.remove(op)
		return 0, c.unreached()
	}
	if left := op.answerBy(c.servers.answerTime()).Sub(now); left > 0 {
		return left, nil
	}
	op.ignored = true
	if op.acquire != nil {
		op.session.outbox.toCancel = append(op.session.outbox.toCancel, op.number)
		op.session.notify()
	}
	if op.session.lastReceived < op.sent {
		op.session.suspect = true
		c.notify()
	}
	return 0, &failure{
		code:    codes.DeadlineExceeded,
		message: fmt.Sprintf("%s has not answered in time", c.servers.name(op.session.server)),
	}
}

// unreached is the failure of an operation that no session has sent. The mutex is held.
func (c *Client) unreached() *failure {
	if c.lastFailure == nil {
		return &failure{
			code:    codes.Unavailable,
			message: fmt.Sprintf("no server could be reached: %s: no answer yet", c.servers.name(c.servers.current())),
			unsent:  true,
		}
	}
	last := *c.lastFailure
	last.unsent = true
	return &last
}

// unanswered is why an operation that its caller gives up has no answer, after an earlier failure if there was one. It is
// nil if the server has said that the request waits.
func (c *Client) unanswered(op *operation, earlier *failure) *failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case op.acknowledged:
		return nil
	case op.element != nil && (c.lastFailure != nil || earlier == nil):
		return c.unreached()
	case earlier != nil:
		return earlier
	default:
		return unavailable("the server has not answered yet")
	}
}

// pause waits before a repetition. The error says that the bound's context or channel ended it.
func (b bound) pause(length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	case <-b.stop:
		return ErrClosed
	}
}

// acknowledged reports whether the server has said that an acquire waits.
func (c *Client) acknowledged(op *operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return op.acknowledged
}
