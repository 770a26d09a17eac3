package fencepost

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// A Lock is a lock that this process holds. It is renewed in the background until it is released or lost. It is safe
// for concurrent use.
//
// While [Lock.Valid] is true, no other process holds the lock, provided that clocks run at nearly the same rate and the
// server's store loses no data. The check and the action that follows are two steps, and a process can be paused
// between them. So send the token with every write to the store that the lock protects, and have the store refuse
// lower tokens: that holds whatever the timing.
//
// Release each lock. One that is forgotten, because nothing refers to it or to a context of it any more, is released in
// the background with a warning, after a garbage collection has found it.
type Lock struct {
	owner       owner
	lease       *lease
	previousEnd LeaseEnd
}

// An owner is what releases and changes a lease: the client that acquired it, or nobody for a lock of fenceposttest.
type owner interface {
	startRelease(held *lease, end error)
	convert(ctx context.Context, held *lease, mode pb.LockMode) (bool, error)
	describe(ctx context.Context, held *lease, metadata map[string]string, holder string) (uint64, error)
}

// Name is the name of the lock.
func (l *Lock) Name() string { return l.lease.name }

// Token is the fencing token: above 0, below 2^53, and higher than those of all earlier grants of the lock. Send it
// with every write to the store that the lock protects. [Lock.TryUpgrade] changes it.
func (l *Lock) Token() uint64 { return l.lease.token.Load() }

// GrantID is the public id of the grant. Store it with the token: it tells grants with equal tokens apart.
func (l *Lock) GrantID() string { return l.lease.grantID }

// Permits is how many permits of a semaphore it has; 0 if the lock is held as none. See [WithSemaphore].
func (l *Lock) Permits() uint32 { return l.lease.permits }

// Slot is its slot, if it has one permit of a semaphore: a number that no other holder has, the lowest that was free,
// from 1 to the limit. For what exists so many times: ids of workers, ports, seats of a licence. Otherwise ok is false.
func (l *Lock) Slot() (slot uint32, ok bool) { return l.lease.slot, l.lease.slot != 0 }

// Holder is the label that others see as the holder. [Lock.Describe] can change it.
func (l *Lock) Holder() string { return *l.lease.holder.Load() }

// PreviousEnd says how the previous lease of the lock ended. Unless it was released, check what its holder left behind.
func (l *Lock) PreviousEnd() LeaseEnd { return l.previousEnd }

// Valid reports whether the lock is held by the local clock, which is read on each call. Once false, it stays false.
func (l *Lock) Valid() bool { return l.lease.state(clock.Now()).end == nil }

// Remaining is how long the lock stays valid without another renewal; 0 if it is lost or released.
func (l *Lock) Remaining() time.Duration { return l.lease.state(clock.Now()).left }

// Err is nil while the lock is held. Afterwards it is a [*LostError], or [ErrReleased] or [ErrClosed] if this process
// released it.
func (l *Lock) Err() error { return l.lease.state(clock.Now()).end }

// Context is done when the lock is no longer held: as soon as the server reports it, at the latest when its validity
// ends by the local clock. Its cause ([context.Cause]) is that of [Lock.Err]. It has the values of the context that the
// lock was acquired with, but not its end; for both use [Lock.WithContext].
//
// The lock is not forgotten as long as something refers to this context, or to one derived from it, or a function of
// [context.AfterFunc] waits for it. Its Done channel alone does not count.
func (l *Lock) Context() context.Context { return lockContext{Context: l.lease.ctx, keeps: l} }

// WithContext derives a context that is also done when the lock is no longer held; its cause is that of [Lock.Err]
// then. Call cancel when the work is done. The lock is not forgotten as long as something refers to the context.
func (l *Lock) WithContext(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(parent)
	lost := l.lease.ctx
	stop := context.AfterFunc(lost, func() { cancelCause(context.Cause(lost)) })
	return lockContext{Context: ctx, keeps: l}, func() {
		stop()
		cancelCause(context.Canceled)
	}
}

// Release releases the lock. Stop the work that it protects first: from then on another holder may get the lock at any
// moment. It is idempotent: each call returns the result of the one release.
//
// The release is sent even if ctx is done; ctx bounds only the wait for the answer, as do 10 s. So a deferred
// lock.Release(ctx) is right whatever has happened to ctx. Without an answer the error is an [*OutcomeUnknownError], and
// the release is repeated in the background until the lease has ended. A [*LostError] says that the lease had ended
// before: only the token protected the work done since then. If the local clock says so, Release does not wait for the
// server.
func (l *Lock) Release(ctx context.Context) error {
	// This may be the last use: until the release has begun, the lock is not forgotten.
	defer runtime.KeepAlive(l)
	l.owner.startRelease(l.lease, ErrReleased)
	return waitForRelease(ctx, l.lease)
}

// String returns the name and the token.
func (l *Lock) String() string {
	return fmt.Sprintf("%s (token %d)", l.lease.name, l.lease.token.Load())
}

// GoString returns the public fields: the lease id is a secret.
func (l *Lock) GoString() string {
	return fmt.Sprintf("fencepost.Lock{Name: %q, Token: %d, GrantID: %q, Valid: %v}", l.Name(), l.Token(), l.GrantID(),
		l.Valid())
}

// LogValue returns the name and the token as a group.
func (l *Lock) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", l.lease.name), slog.Uint64("token", l.lease.token.Load()))
}
