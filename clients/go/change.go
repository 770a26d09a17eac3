package fencepost

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// change makes a call that changes a lease, and repeats it over the servers until one answers, at most for 10 s. A
// repeat has no further effect. If the lease ends meanwhile, the error is its end.
func change[T any](
	ctx context.Context, c *Client, held *lease,
	send func(context.Context, pb.LockServiceClient, grpc.CallOption) (T, error),
) (T, error) {
	var none T
	if err := c.begin(); err != nil {
		return none, err
	}
	defer c.finish()
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(held.ctx, cancel)()
	var pauses retryPauses
	// open is whether a transmission may have taken effect that has no answer.
	open := false
	var answered *failure
	b := bound{ctx: calling, stop: c.closing.Done(), until: clock.Now().Add(retryFor)}
	for {
		var reached peer.Peer
		answer, failed := callOnce(calling, c, func(ctx context.Context, stub pb.LockServiceClient) (T, error) {
			return send(ctx, stub, grpc.Peer(&reached))
		})
		if failed == nil {
			return answer, nil
		}
		// Without a connection, nothing was sent.
		failed.unsent = reached.Addr == nil
		open = open || failed.mayHaveEffect()
		if failed.isAnswer() {
			answered = failed
		}
		pause := pauses.next(failed.retryAfter)
		if failed.isTransient() && b.until.Sub(clock.Now()) > pause && b.pause(pause) == nil {
			continue
		}
		if end := held.state(clock.Now()).end; end != nil {
			return none, end
		}
		return none, changeError(ctx, held.name, failed, answered, open)
	}
}

// beginChange waits for its turn: changes of one lease follow one another. The error says that the lease has ended, or
// that ctx is done.
func (l *lease) beginChange(ctx context.Context) error {
	select {
	case l.changing <- struct{}{}:
	case <-l.ctx.Done():
		return l.state(clock.Now()).end
	case <-ctx.Done():
		return doneError(l.name, ctx, unavailable("another change of the lock has no answer yet"), nil)
	}
	end := l.state(clock.Now()).end
	if end != nil {
		l.endChange()
	}
	return end
}

func (l *lease) endChange() { <-l.changing }

// changeError is the error of a change that is not repeated any more.
func changeError(ctx context.Context, name string, failed, answered *failure, open bool) error {
	isSettled := failed.code == codes.Aborted || failed.code == codes.FailedPrecondition
	switch {
	case open && isSettled:
		// The server knows the lease: no transmission has taken effect.
	case open && ctx.Err() != nil:
		return &OutcomeUnknownError{Name: name, Cause: withAnswer(whyDone(ctx), answered)}
	case open:
		return &OutcomeUnknownError{Name: name, Cause: failed.after(answered)}
	case ctx.Err() != nil:
		return doneError(name, ctx, failed, answered)
	}
	return failed.after(answered).public(name)
}
