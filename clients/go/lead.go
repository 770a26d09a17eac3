package fencepost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost-go/internal/clock"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// shortTerm is a term after whose loss there is a pause: whatever ended it may end the next one as well.
const shortTerm = facts.ReconnectMaxMS * time.Millisecond

// Lead takes part in the election of a leader. An election is a lock: to campaign is to wait for the lock, a leader is
// its holder until it is lost or released, and the number of the term is the fencing token. Lead waits until it is
// elected, however long that takes, and calls body with the lock.
//
// The context of body is done when ctx is, or when the lock is lost; body has to return then. Send the token with every
// write: a leader that is paused does not know that there is another one, and does no harm only if the store refuses
// lower tokens.
//
//   - If the lock is lost, Lead waits until body has returned, and campaigns again: body is called once for each term.
//     What it returns after a loss is dropped; the logger is told of an error other than that of its context.
//   - If body returns while it leads, also because ctx is done, the lock is released, and Lead returns what body
//     returned. The lock is never released while body runs, except by [Client.Close]: then Lead returns [ErrClosed],
//     joined with the error of body. If body panics, the lock is released.
//   - If ctx is done while no body runs, Lead returns an error that wraps ctx.Err(), and leaves the queue.
//   - An outage of the servers is no error, and neither is a full queue: Lead campaigns on, after pauses of up to 2 s,
//     and tells the logger once. Errors that no later campaign mends are returned: a [*RefusedError], and an
//     [*UnavailableError] that says that the servers are no Fencepost servers or not to be trusted.
//
// The options are those of [Client.Acquire], except for [WithWait], [WithRequestID], [WithShared] and [WithSemaphore];
// [WithMaxHold] is the longest term. A release is as that of [Client.Do]: if it reveals that the lock had been lost,
// the error matches [ErrLost].
func (c *Client) Lead(
	ctx context.Context, name string, body func(ctx context.Context, lock *Lock) error, options ...AcquireOption,
) error {
	e, err := newElector(c, name, body, options)
	if err != nil {
		return err
	}
	for {
		lock, err := e.campaign(ctx)
		if err != nil {
			return err
		}
		elected := clock.Now()
		done := e.term(ctx, lock)
		if !errors.Is(done.ended, ErrLost) {
			return done.err()
		}
		if clock.Now().Sub(elected) >= shortTerm {
			e.pauses = 0
		} else if err := e.pause(ctx, done.ended); err != nil {
			return err
		}
	}
}

// An elector is one call of Lead.
type elector struct {
	client  *Client
	name    string
	body    func(context.Context, *Lock) error
	options acquireOptions
	// pauses is the number of pauses since the last term that was not short, or since an outage ended.
	pauses int
	// isOut is whether the servers are away, of which the logger has been told.
	isOut bool
}

func newElector(
	c *Client, name string, body func(context.Context, *Lock) error, options []AcquireOption,
) (*elector, error) {
	e := &elector{client: c, name: name, body: body, options: chosen(options)}
	switch {
	case body == nil:
		return nil, invalid(name, "body", "must be a function; it is nil")
	case e.options.wait != 0:
		return nil, invalid(name, "wait_timeout", "cannot be set: Lead waits until its context is done")
	case e.options.requestID != "":
		return nil, invalid(name, "request_id", "belongs to one acquire: it cannot be that of several terms")
	case e.options.modeName() != "":
		rule := fmt.Sprintf("cannot be %s: an election has one leader at a time", e.options.modeName())
		return nil, invalid(name, "mode", rule)
	}
	e.options.untilDone, e.options.onOverQuota = true, e.tell
	tell := e.options.onPosition
	e.options.onPosition = func(ahead int) {
		e.answered()
		if tell != nil {
			tell(ahead)
		}
	}
	return e, nil
}

// tell tells the logger of an outage, once.
func (e *elector) tell(err error) {
	if !e.isOut {
		e.isOut = true
		e.client.events.campaignFails(e.name, err)
	}
}

// campaign waits for the lock, over all errors that pass.
func (e *elector) campaign(ctx context.Context) (*Lock, error) {
	for {
		lock, err := e.client.acquireWith(patient{ctx}, e.name, e.options)
		if err == nil {
			e.answered()
			return lock, nil
		}
		if !mayPass(err) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil, err
		}
		e.tell(err)
		if err := e.pause(ctx, err); err != nil {
			return nil, err
		}
	}
}

// answered ends an outage: the request waits, or has the lock.
func (e *elector) answered() {
	if e.isOut {
		e.isOut, e.pauses = false, 0
	}
}

// term runs the body of a leader until it has returned, and releases the lock.
func (e *elector) term(ctx context.Context, lock *Lock) worked {
	done := e.client.workUnder(ctx, lock, func(ctx context.Context) error { return e.body(ctx, lock) })
	if errors.Is(done.ended, ErrReleased) {
		done.ended = nil // by the body, which has led until then
	}
	isCancelled := errors.Is(done.failed, context.Canceled) || ctx.Err() != nil && errors.Is(done.failed, ctx.Err())
	if errors.Is(done.ended, ErrLost) && done.failed != nil && !isCancelled && !errors.Is(done.failed, done.ended) {
		e.client.events.dropped(lock.lease, done.failed)
	}
	return done
}

// pause waits before the next campaign, longer each time and at least as long as the server asks for. The error says
// that ctx or Close has ended the wait.
func (e *elector) pause(ctx context.Context, why error) error {
	full := reconnectPause(0, e.pauses)
	e.pauses++
	b := bound{ctx: ctx, stop: e.client.closing.Done()}
	if b.pause(max(full/2+randomPart(full/2), retryAfter(why))) == nil {
		return nil
	}
	if ctx.Err() == nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: %s", abandoned(e.name, ctx, nil), bare(why))
}

// retryAfter is how long the server asks to wait before the call is repeated.
func retryAfter(err error) time.Duration {
	var away *UnavailableError
	var refused *RefusedError
	switch {
	case errors.As(err, &away):
		return away.RetryAfter
	case errors.As(err, &refused):
		return refused.RetryAfter
	default:
		return 0
	}
}

// mayPass reports whether a later acquire may succeed after this error of one.
func mayPass(err error) bool {
	var away *UnavailableError
	var refused *RefusedError
	switch {
	case errors.Is(err, ErrClosed):
		return false
	case errors.As(err, &away):
		return !away.hopeless
	case errors.As(err, &refused):
		return !isFinal(refused.Code)
	default:
		return true
	}
}

// A patient context hides its deadline: a wait ends when it is done, and not shortly before.
type patient struct{ context.Context }

func (patient) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
