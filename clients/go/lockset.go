package fencepost

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"time"
)

// A LockSet is several locks that this process holds together. Each has a token of its own: send it with every write
// to the store that this lock protects. It is safe for concurrent use.
//
// The set is valid until the first of its locks ends, and lost when one is. Stop the work then, and release the set:
// the others are held until that.
type LockSet struct {
	// locks are in the order of their names.
	locks  []*Lock
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// newLockSet hands out locks. The context has the values of ctx.
func newLockSet(ctx context.Context, locks []*Lock) *LockSet {
	s := &LockSet{locks: locks}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	cancel := s.cancel
	for _, lock := range locks {
		// The function refers to the lease alone: a set that is forgotten is collected.
		lost := lock.lease.ctx
		context.AfterFunc(lost, func() { cancel(context.Cause(lost)) })
	}
	return s
}

// Names are the names of the locks, each once, sorted by their bytes.
func (s *LockSet) Names() []string {
	names := make([]string, 0, len(s.locks))
	for _, lock := range s.locks {
		names = append(names, lock.Name())
	}
	return names
}

// Lock returns one of the locks; nil if the set has none of this name. Do not release it by itself.
func (s *LockSet) Lock(name string) *Lock {
	for _, lock := range s.locks {
		if lock.Name() == name {
			return lock
		}
	}
	return nil
}

// Token is the fencing token of one of the locks; 0 if the set has none of this name.
func (s *LockSet) Token(name string) uint64 {
	if lock := s.Lock(name); lock != nil {
		return lock.Token()
	}
	return 0
}

// All iterates over the locks, in the order of their names.
func (s *LockSet) All() iter.Seq2[string, *Lock] {
	return func(yield func(string, *Lock) bool) {
		for _, lock := range s.locks {
			if !yield(lock.Name(), lock) {
				return
			}
		}
	}
}

// Valid reports whether all locks are held by the local clock, which is read on each call. Once false, it stays false.
func (s *LockSet) Valid() bool { return s.Err() == nil }

// Remaining is how long all locks stay valid without another renewal; 0 if one is lost or released.
func (s *LockSet) Remaining() time.Duration {
	left := s.locks[0].Remaining()
	for _, lock := range s.locks[1:] {
		left = min(left, lock.Remaining())
	}
	return left
}

// Err is nil while all locks are held. Afterwards it is the [*LostError] of a lock that is lost, or [ErrReleased] or
// [ErrClosed] if this process released them.
func (s *LockSet) Err() error {
	_, err := s.firstEnd()
	return err
}

// firstEnd is what Err returns, and the name of the lock whose end it is.
func (s *LockSet) firstEnd() (name string, first error) {
	for _, lock := range s.locks {
		err := lock.Err()
		if err != nil && (first == nil || errors.Is(err, ErrLost) && !errors.Is(first, ErrLost)) {
			name, first = lock.Name(), err
		}
	}
	if first != nil {
		// Who sees the end here finds the context done as well.
		s.cancel(first)
	}
	return name, first
}

// Context is done when one of the locks is no longer held, as [Lock.Context] is. Its cause ([context.Cause]) is that
// of the first end. The locks are not forgotten as long as something refers to this context, or to one derived from
// it.
func (s *LockSet) Context() context.Context { return lockContext{Context: s.ctx, keeps: s} }

// WithContext derives a context that is also done when one of the locks is no longer held; its cause is that of the
// first end then. Call cancel when the work is done.
func (s *LockSet) WithContext(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(parent)
	lost := s.ctx
	stop := context.AfterFunc(lost, func() { cancelCause(context.Cause(lost)) })
	return lockContext{Context: ctx, keeps: s}, func() {
		stop()
		cancelCause(context.Canceled)
	}
}

// Release releases all locks, the last one first, and waits for all answers. Stop the work that they protect first. It
// is idempotent.
//
// All releases are sent even if ctx is done; ctx bounds only the wait for the answers, as do 10 s. The error joins
// those of [Lock.Release] of all locks, each of which names its lock: a [*LostError] if its lease had ended before, an
// [*OutcomeUnknownError] without an answer. The release is repeated in the background then.
func (s *LockSet) Release(ctx context.Context) error {
	defer runtime.KeepAlive(s)
	return errors.Join(releaseAll(ctx, s.locks)...)
}

// releaseAll releases locks, the last one first, and returns their errors.
func releaseAll(ctx context.Context, locks []*Lock) []error {
	startReleases(locks)
	ctx, cancel := context.WithTimeoutCause(ctx, retryFor, errors.New("no answer in time"))
	defer cancel()
	failed := make([]error, 0, len(locks))
	for _, lock := range locks {
		if err := waitForRelease(ctx, lock.lease); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

func startReleases(locks []*Lock) {
	for i := len(locks) - 1; i >= 0; i-- {
		locks[i].owner.startRelease(locks[i].lease, ErrReleased)
	}
}

// String returns the names and the tokens.
func (s *LockSet) String() string {
	texts := make([]string, 0, len(s.locks))
	for _, lock := range s.locks {
		texts = append(texts, lock.String())
	}
	return strings.Join(texts, ", ")
}

// GoString returns the public fields: the lease ids are secrets.
func (s *LockSet) GoString() string { return fmt.Sprintf("fencepost.LockSet{%s}", s) }
