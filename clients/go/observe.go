package fencepost

import (
	"context"
	"iter"

	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// Observe iterates over the states of a lock: first the one that it has now, then each that it has after a grant, a
// conversion, a description or the end of a lease. So it tells who leads an election, and what the leader says of
// itself ([Lock.Describe]). That nobody holds the lock is a state too. An iteration that is slow gets the newest state
// and misses those between. A queue that grows or shrinks, renewals and the end of a delay are no news.
//
// An outage of the servers is no error: it observes again, with pauses, and the next state is then the one that the
// lock has by that time. Until it comes, the last one may be out of date. An error ends the iteration: ctx is done, the
// client is closed, or no repetition helps (a [*RefusedError], and an [*UnavailableError] that says that the servers
// are no Fencepost servers or not to be trusted).
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		if err := checkUTF8(name, "lock_name", name); err != nil {
			yield(LockInfo{}, err)
			return
		}
		o := &observer{client: c, name: name}
		defer o.end()
		for {
			state, err := o.next(ctx)
			if !yield(state, err) || err != nil {
				return
			}
		}
	}
}

// An observer is one iteration of Observe.
type observer struct {
	client *Client
	name   string
	// states is nil while nothing is observed, and since is when that began.
	states *stream[pb.ObserveResponse]
	since  clock.Moment
	pauses retryPauses
	// answered is the last failure that a server answered since the last state.
	answered *failure
}

func (o *observer) end() {
	if o.states != nil {
		o.states.end()
	}
}

// next waits for the next state, over all failures that pass.
func (o *observer) next(ctx context.Context) (LockInfo, error) {
	for {
		state, failed := o.receive(ctx)
		if failed == nil {
			o.answered = nil
			return lockInfo(state.GetLock()), nil
		}
		if failed.isAnswer() {
			o.answered = failed
		}
		if err := o.pause(ctx, failed); err != nil {
			return LockInfo{}, err
		}
	}
}

// receive waits for a message of the stream, which it opens if there is none.
func (o *observer) receive(ctx context.Context) (state *pb.ObserveResponse, failed *failure) {
	if o.states != nil {
		if state, failed = o.states.next(); failed != nil {
			o.states = nil
			if clock.Now().Sub(o.since) >= shortTerm {
				o.pauses = retryPauses{}
			}
		}
		return state, failed
	}
	if o.client.begin() != nil {
		return nil, unavailable(bare(ErrClosed)) // pause tells it
	}
	defer o.client.finish()
	observe := func(
		ctx context.Context, stub pb.LockServiceClient,
	) (grpc.ServerStreamingClient[pb.ObserveResponse], error) {
		return stub.Observe(ctx, &pb.ObserveRequest{LockName: o.name})
	}
	o.states, state, failed = openStream(ctx, o.client, observe)
	o.since = clock.Now()
	return state, failed
}

// pause waits before the next attempt. The error says that there is none.
func (o *observer) pause(ctx context.Context, failed *failure) error {
	switch {
	case ctx.Err() != nil:
		return doneError(o.name, ctx, failed, o.answered)
	case o.client.closing.Err() != nil:
		return ErrClosed
	case !failed.isTransient():
		return failed.after(o.answered).public(o.name)
	}
	b := bound{ctx: ctx, stop: o.client.closing.Done()}
	if b.pause(o.pauses.next(failed.retryAfter)) == nil {
		return nil
	}
	if ctx.Err() == nil {
		return ErrClosed
	}
	return doneError(o.name, ctx, failed, o.answered)
}
