package fencepost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// Acquire acquires a lock. If the lock is held, it returns a [*ContendedError], unless [WithWait] or [WithWaitUntilDone]
// say to wait in the queue, first come, first served. While no server answers, it is repeated for 10 s in addition to its
// wait.
//
// When ctx is done, the request leaves the queue, and a lock that was granted at that moment is released in the
// background. The lock itself outlives ctx: release it.
//
// Errors: [*ContendedError] (without a wait), [*TimedOutError], [*UnavailableError], [*OutcomeUnknownError],
// [*RefusedError], [ErrClosed], and an error that wraps ctx.Err().
func (c *Client) Acquire(ctx context.Context, name string, options ...AcquireOption) (*Lock, error) {
	return c.acquire(ctx, name, options)
}

// TryAcquire acquires a lock if it is free, and returns a [*ContendedError] if it is held, whatever the options say of
// waiting.
func (c *Client) TryAcquire(ctx context.Context, name string, options ...AcquireOption) (*Lock, error) {
	return c.acquire(ctx, name, append(options[:len(options):len(options)], WithWait(0)))
}

func (c *Client) acquire(ctx context.Context, name string, options []AcquireOption) (*Lock, error) {
	return c.acquireWith(ctx, name, chosen(options))
}

func chosen(options []AcquireOption) acquireOptions {
	o := acquireOptions{}
	for _, option := range options {
		option(&o)
	}
	return o
}

func (c *Client) acquireWith(ctx context.Context, name string, o acquireOptions) (*Lock, error) {
	request, err := o.request(name, c.settings.holder)
	if err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.finish()
	if ctx.Err() != nil {
		return nil, abandoned(name, ctx, nil)
	}
	return newAttempts(ctx, c, request, o).run()
}

// abandoned is the error of a call whose context is done, with the reason why it was not answered before.
func abandoned(name string, ctx context.Context, why *failure) error {
	err := whyDone(ctx)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return fmt.Errorf("fencepost: %s is not acquired: %w", name, err)
}

// whyDone is the error of a context that is done, with its cause.
func whyDone(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// attempts are one acquire, over all of its transmissions. Each carries the same request id and the next attempt number,
// so their effect is that of one request, whatever the network lost or delayed.
//
// A request that could not reach the servers for too long may have ended: they gave up its queue position, or the lease
// that it was granted is over before the answer arrived. It holds nothing, so a wait that has time left continues as a
// request with a new id, unless the caller chose the id.
//
// One that is above the quota of the caller is repeated on the same server until the wait is over.
type attempts struct {
	client  *Client
	request *pb.AcquireRequest
	options acquireOptions
	bound   bound
	// waitUntil is when the wait ends; without a bound it is far away.
	waitUntil clock.Moment
	waitMax   time.Duration
	// unbounded is whether only silence of the servers ends the wait, and byContext whether the deadline of the
	// context does.
	unbounded, byContext bool
	ctx                  context.Context
	pauses               retryPauses
	// open is whether a transmission may have taken effect that has no answer.
	open bool
	// why is why the last transmission was not answered; nil if the server has said that the request waits.
	why *failure
	// answer is the last failure that a server answered.
	answer *failure
}

func newAttempts(ctx context.Context, c *Client, request *pb.AcquireRequest, o acquireOptions) *attempts {
	now := clock.Now()
	a := &attempts{client: c, request: request, options: o, ctx: ctx, waitMax: o.wait}
	a.bound = bound{ctx: ctx, stop: c.closing.Done(), onPosition: o.onPosition}
	deadline, hasDeadline := ctx.Deadline()
	left := time.Until(deadline)
	// A part of the time is kept for the answer, which says who holds the lock.
	left -= min(left/10, 250*time.Millisecond)
	switch {
	case hasDeadline && (o.untilDone || left < o.wait):
		a.waitMax = max(left, 0)
		a.waitUntil, a.byContext = now.Add(max(left, 0)), true
	case o.untilDone:
		a.unbounded = true
		a.waitUntil = now.Add(1 << 62)
	default:
		a.waitUntil = now.Add(o.wait)
	}
	if o.untilDone {
		longest := time.Duration(c.longestWait.Load())
		if a.unbounded || a.waitMax > longest {
			a.waitMax = longest
		}
	}
	a.contact(now)
	return a
}

// contact moves the bound of an acquire that only silence ends: a server has answered.
func (a *attempts) contact(now clock.Moment) {
	a.bound.until = a.waitUntil.Add(retryFor)
	if a.unbounded {
		a.bound.until = now.Add(retryFor)
	}
}

// run ends with a lock, or with nothing that is held or waits, or with a cleanup in the background.
func (a *attempts) run() (*Lock, error) {
	for {
		a.request.Attempt++
		op := acquireOperation(&acquisition{
			request: proto.CloneOf(a.request), waitUntil: a.waitUntil, waitMax: a.waitMax,
			onAtRisk: a.options.onAtRisk, firstDescription: a.firstDescription(), ctx: a.ctx,
		})
		if !a.client.submit(op) {
			return nil, ErrClosed
		}
		failed, err := a.transmit(op)
		if err != nil {
			return nil, a.stopped(err)
		}
		if failed == nil {
			a.open = false
			lock, again, err := a.answered(op)
			if !again {
				return lock, err
			}
			a.restart()
			continue
		}
		if err := a.failed(op, failed); err != nil {
			return nil, err
		}
	}
}

// transmit waits for the answer to one transmission, and cleans up behind it if the caller stops waiting: by its
// context, or by a panic in its own function that is told the position.
func (a *attempts) transmit(op *operation) (failed *failure, err error) {
	answered := false
	defer func() {
		if !answered {
			a.why = a.client.unanswered(op, a.why)
			a.client.abandon(op, a.next(), a.open)
		}
	}()
	failed, err = a.client.transmit(op, a.bound)
	answered = err == nil
	return failed, err
}

// next is the request of the next attempt.
func (a *attempts) next() *pb.AcquireRequest { return nextAttempt(a.request) }

func nextAttempt(request *pb.AcquireRequest) *pb.AcquireRequest {
	next := proto.CloneOf(request)
	next.Attempt++
	return next
}

// restart goes on with a request with a new id.
func (a *attempts) restart() {
	a.request.RequestId, a.request.Attempt = uuid.NewString(), 0
	a.open, a.why, a.answer = false, nil, nil
	a.contact(clock.Now())
}

// hasTime reports whether a request with a new id may go on.
func (a *attempts) hasTime() bool { return a.options.requestID == "" && clock.Now() < a.waitUntil }

// failed decides what follows on a transmission that failed: after a pause the next one, or an error.
func (a *attempts) failed(op *operation, failed *failure) error {
	if failed.isTransient() && failed.unsent && failed.found == nil && failed.reason == "" && a.why != nil {
		// It says nothing about the servers. An earlier transmission may have.
		last := *a.why
		last.unsent = true
		failed = &last
	}
	a.why = failed
	if a.client.acknowledged(op) {
		a.contact(clock.Now())
		a.pauses = retryPauses{}
	}
	if failed.unsent {
		a.request.Attempt-- // the number was not used
	}
	until := a.bound.until
	switch {
	case failed.code == codes.Aborted && failed.reason == "REQUEST_ENDED":
		// The outcome of the request, whichever transmission caused it.
		a.open = false
		if !a.hasTime() {
			return failed.public(a.request.GetLockName())
		}
		a.restart()
	case failed.code == codes.Aborted && failed.reason == "OVERTAKEN" && a.options.requestID == "":
		// This attempt was dropped: nobody else knows the id.
	case failed.isTransient():
		a.open = a.open || failed.mayHaveEffect()
		if failed.isAnswer() {
			a.answer = failed
		}
	case failed.isOverQuota():
		a.contact(clock.Now())
		until = a.waitUntil
		if a.options.onOverQuota != nil {
			a.options.onOverQuota(failed.public(a.request.GetLockName()))
		}
	case failed.reason == "SESSION_FULL":
	case a.shorten(op, failed):
		return nil
	default:
		// Any other refusal concerns its own transmission only.
		return a.end(failed)
	}
	pause := a.pauses.next(failed.retryAfter)
	if until.Sub(clock.Now()) <= pause {
		return a.end(failed)
	}
	if err := a.bound.pause(pause); err != nil {
		a.withdraw()
		return a.stopped(err)
	}
	return nil
}

// shorten asks for half of a wait that is too long for the server, if the caller has named none.
func (a *attempts) shorten(op *operation, failed *failure) bool {
	half := duration(op.acquire.request.GetWaitTimeout()) / 2
	if !a.options.untilDone || half < waitMin || !failed.violates("wait_timeout") {
		return false
	}
	a.waitMax = half
	a.client.longestWait.Store(int64(half))
	return true
}

// end is the error of an acquire that is not repeated any more.
func (a *attempts) end(failed *failure) error {
	name := a.request.GetLockName()
	failed = failed.after(a.answer)
	if !a.open {
		return failed.public(name)
	}
	a.withdraw()
	if !failed.isTransient() && !failed.hopeless {
		return failed.public(name)
	}
	// Not an error of its own type, which would say that nothing was done.
	return &OutcomeUnknownError{Name: name, Cause: failed}
}

// withdraw cleans up behind transmissions that may have taken effect.
func (a *attempts) withdraw() {
	if a.open {
		next := a.next()
		a.client.background(func() { a.client.withdraw(next) })
	}
}

// stopped is the error of an acquire that its context, or Close, has ended.
func (a *attempts) stopped(err error) error {
	if errors.Is(err, ErrClosed) && a.ctx.Err() == nil {
		return ErrClosed
	}
	why := a.why
	if why != nil {
		why = why.after(a.answer)
	}
	return abandoned(a.request.GetLockName(), a.ctx, why)
}

// answered ends an acquire with the answer of the server, or asks for a request with a new id.
func (a *attempts) answered(op *operation) (lock *Lock, again bool, err error) {
	answer, name := op.answer.GetAcquire(), a.request.GetLockName()
	switch answer.GetOutcome() {
	case pb.AcquireResponse_OUTCOME_ACQUIRED:
		if op.granted != nil {
			return a.granted(op.granted, leaseEnd(answer.GetPreviousEnd()))
		}
	case pb.AcquireResponse_OUTCOME_CONTENDED:
		waits := a.options.untilDone || a.options.wait > 0
		if !waits || a.options.maxWaiters != 0 && op.acquire.request.GetWaitTimeout().AsDuration() > 0 {
			return nil, false, &ContendedError{
				Name: name, Holders: holders(answer.GetHolders()), HolderCount: int(answer.GetHolderCount()),
				Semaphore: semaphore(answer.GetSemaphore()), Delay: delay(answer.GetDelay()),
				Waiters: int(answer.GetWaiters()),
			}
		}
		// The answer to a repetition that arrived when the wait was over.
		return nil, a.unbounded, a.timedOut(answer)
	case pb.AcquireResponse_OUTCOME_TIMED_OUT:
		// The longest wait of a request is over, but not that of the caller.
		return nil, a.unbounded || a.byContext && a.hasTime(), a.timedOut(answer)
	}
	return nil, false, unknownAnswer("an acquire").public(name)
}

func (a *attempts) timedOut(answer *pb.AcquireResponse) error {
	return &TimedOutError{
		Name: a.request.GetLockName(), Holders: holders(answer.GetHolders()), HolderCount: int(answer.GetHolderCount()),
		Semaphore: semaphore(answer.GetSemaphore()), Delay: delay(answer.GetDelay()), Waiters: int(answer.GetWaiters()),
		byContext: a.byContext,
	}
}

// granted hands out a lease. If less than half of it is left, or if its TTL is not known, it is renewed first, and if it
// is over it is released.
func (a *attempts) granted(held *lease, previous LeaseEnd) (lock *Lock, again bool, err error) {
	if err := a.renewLate(held); err != nil {
		a.client.startRelease(held, ErrReleased)
		return nil, false, a.stopped(err)
	}
	if end := held.state(clock.Now()).end; end != nil {
		a.client.startRelease(held, ErrReleased)
		if errors.Is(end, ErrClosed) {
			return nil, false, ErrClosed
		}
		return nil, a.hasTime(), end
	}
	if a.client.closed() {
		a.client.startRelease(held, ErrClosed)
		return nil, false, ErrClosed
	}
	return newLock(a.client, held, previous), false, nil
}

// renewLate renews a lease of which too little is left, until enough is left or it is over.
func (a *attempts) renewLate(held *lease) error {
	for pauses := (retryPauses{}); ; {
		state := held.state(clock.Now())
		// Where max_hold ends the lease, another renewal tells no more.
		if state.end != nil || state.bounded || !state.replayed && !isLate(state.left, state.ttl) {
			return nil
		}
		op := renewOperation(held)
		if !a.client.submit(op) {
			return ErrClosed
		}
		b := a.bound
		b.until = clock.Now().Add(state.left)
		failed, err := a.client.transmit(op, b)
		if err != nil {
			return err
		}
		if failed != nil {
			if err := b.pause(pauses.next(failed.retryAfter)); err != nil {
				return err
			}
		}
	}
}
