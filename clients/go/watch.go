package fencepost

import (
	"context"
	"errors"
	"iter"

	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// An EventKind says what happened to a lock.
type EventKind string

// The kinds of events.
const (
	// EventGranted: a lease was granted.
	EventGranted EventKind = "granted"
	// EventReleased: its holder released it.
	EventReleased EventKind = "released"
	// EventExpired: it expired. Reported when a server notices; on a Redis store possibly never, if nobody wants the
	// lock.
	EventExpired EventKind = "expired"
	// EventRevoked: it was revoked. Reason says why.
	EventRevoked EventKind = "revoked"
	// EventMissed: events were lost. List again to get the current state.
	EventMissed EventKind = "missed"
	// EventChanged: its holder converted or described it. Token and Holder are those that it has now, and Mode is its
	// mode.
	EventChanged EventKind = "changed"
)

// An Event is something that happened to a lock.
type Event struct {
	// Kind is what happened.
	Kind EventKind
	// Name is the name of the lock. With EventMissed it is empty, and so are all fields but Missed.
	Name string
	// Holder is the label of the holder.
	Holder string
	// Identity is who the holder is, as the server verified it; empty if it verifies nobody.
	Identity string
	// GrantID is the public id of the grant.
	GrantID string
	// Token is the fencing token of the grant.
	Token uint64
	// Reason is why the lease was revoked.
	Reason string
	// Mode is the mode of the lease from now on, with EventChanged.
	Mode LockMode
	// Missed is the lowest possible number of events lost since the previous event; 0 if it is not known.
	Missed uint64
}

// A Watcher receives the events of the locks whose names begin with a prefix. Close it when it is no longer needed. It
// is for one goroutine.
type Watcher struct {
	client *Client
	prefix string
	ctx    context.Context
	cancel context.CancelFunc
	events *stream[pb.WatchResponse]
	// err is the error that has ended the watcher.
	err error
}

// Watch watches the locks whose names begin with a prefix, until ctx is done or the watcher is closed. When it returns,
// all later events are reported. If the connection is lost, the watcher connects to the next server and reports
// EventMissed.
func (c *Client) Watch(ctx context.Context, prefix string) (*Watcher, error) {
	if err := checkUTF8("", "prefix", prefix); err != nil {
		return nil, err
	}
	w := &Watcher{client: c, prefix: prefix}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if err := w.open(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Close ends the watcher.
func (w *Watcher) Close() { w.cancel() }

// All iterates over the events until the watcher is closed, its context is done, or an error ends it. The error is
// reported last.
func (w *Watcher) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			event, err := w.Next()
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Next waits for the next event. An error is final: the context of Watch is done, the watcher or the client is closed,
// or no server has answered for 10 s.
func (w *Watcher) Next() (event Event, err error) {
	if w.err == nil {
		event, w.err = w.next()
	}
	return event, w.err
}

func (w *Watcher) next() (Event, error) {
	for {
		message, failed := w.events.next()
		if failed != nil {
			if !failed.isTransient() && failed.isFinalForSession() {
				return Event{}, failed.public("")
			}
			break
		}
		if event, ok := eventOf(message); ok {
			return event, nil
		}
	}
	if err := w.open(); err != nil {
		return Event{}, err
	}
	return Event{Kind: EventMissed}, nil
}

// open opens the stream, and waits for the event STARTED. It is repeated over the servers, at most for 10 s.
func (w *Watcher) open() error {
	if err := w.client.begin(); err != nil {
		return err
	}
	defer w.client.finish()
	var pauses retryPauses
	var answered *failure
	b := bound{ctx: w.ctx, stop: w.client.closing.Done(), until: clock.Now().Add(retryFor)}
	for {
		failed := w.start()
		if failed == nil {
			return nil
		}
		if w.ctx.Err() != nil {
			return doneError("", w.ctx, failed, answered)
		}
		if failed.isAnswer() {
			answered = failed
		}
		if w.client.closing.Err() != nil {
			return ErrClosed
		}
		pause := pauses.next(failed.retryAfter)
		if !failed.isTransient() || b.until.Sub(clock.Now()) <= pause {
			return failed.after(answered).public("")
		}
		if err := b.pause(pause); errors.Is(err, ErrClosed) {
			return ErrClosed
		} else if err != nil {
			return doneError("", w.ctx, failed, answered)
		}
	}
}

// start makes one attempt to open the stream.
func (w *Watcher) start() (failed *failure) {
	watch := func(ctx context.Context, stub pb.LockServiceClient) (grpc.ServerStreamingClient[pb.WatchResponse], error) {
		return stub.Watch(ctx, &pb.WatchRequest{Prefix: w.prefix})
	}
	w.events, _, failed = openStream(w.ctx, w.client, watch) // the first event is STARTED
	return failed
}

func eventOf(message *pb.WatchResponse) (Event, bool) {
	kinds := map[pb.WatchResponse_Kind]EventKind{
		pb.WatchResponse_KIND_GRANTED:  EventGranted,
		pb.WatchResponse_KIND_RELEASED: EventReleased,
		pb.WatchResponse_KIND_EXPIRED:  EventExpired,
		pb.WatchResponse_KIND_REVOKED:  EventRevoked,
		pb.WatchResponse_KIND_MISSED:   EventMissed,
		pb.WatchResponse_KIND_CHANGED:  EventChanged,
	}
	kind, ok := kinds[message.GetKind()]
	event := Event{
		Kind: kind, Name: message.GetLockName(), Holder: message.GetHolder(), Identity: message.GetIdentity(),
		GrantID: message.GetGrantId(), Token: message.GetFencingToken(), Reason: message.GetReason(),
		Missed: message.GetMissed(),
	}
	if kind == EventChanged {
		event.Mode = lockMode(message.GetMode())
	}
	return event, ok
}
