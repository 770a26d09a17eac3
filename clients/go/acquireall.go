package fencepost

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost-go/internal/clock"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// AcquireAll acquires several locks together: all of them, or none. Names are 1 to 64 names; one that is given twice
// counts once. The options are those of [Client.Acquire] for each lock, except that [WithWait] is the wait for all of
// them in sum, and that a request id belongs to one lock alone. [WithSharedNames] adds locks that are shared;
// [WithShared] and [WithSemaphore] are refused.
//
// The locks are acquired one after another, in the order of the bytes of their names, in which all clients acquire
// them: so no two calls wait for each other in a circle. It is not one step: others see that some are held, and those
// are held while later ones are waited for. [Client.TryAll] does not do that.
//
// It fails, and gives back what it has, when one is not acquired, when one is lost while later ones are waited for,
// and when ctx is done. The error is a [*NotAllAcquiredError], which names the lock and wraps its error.
func (c *Client) AcquireAll(ctx context.Context, names []string, options ...AcquireOption) (*LockSet, error) {
	wanted, err := newWanted(names, options)
	if err != nil {
		return nil, err
	}
	return c.acquireAll(ctx, wanted)
}

// TryAll acquires several locks together when all of them are free at the same moment. It never waits for one lock
// while it holds another: it tries to acquire all, and if one is held it gives back what it has and tries again after
// a random pause of up to a second, until the wait of [WithWait] or [WithWaitUntilDone] is over. So it holds up
// nobody, and it may come too late again and again if the locks are rarely free. Arguments and errors are those of
// [Client.AcquireAll]; if the locks were never free together, the error matches [ErrContended], and also the error of
// ctx if that ended the wait.
func (c *Client) TryAll(ctx context.Context, names []string, options ...AcquireOption) (*LockSet, error) {
	wanted, err := newWanted(names, options)
	if err != nil {
		return nil, err
	}
	wanted.byTries = true
	for pauses := (retryPauses{}); ; {
		set, err := c.acquireAll(ctx, wanted)
		if !errors.Is(err, ErrContended) {
			return set, err
		}
		pause := pauses.next(0)
		if !wanted.options.untilDone && wanted.left() <= pause {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(err, whyDone(ctx))
		case <-c.closing.Done():
			timer.Stop()
			return nil, ErrClosed
		}
	}
}

// DoAll acquires several locks as [Client.AcquireAll] does, with the same options, calls work, and releases the locks.
// It never calls work without all of them.
//
// The context of work is done when ctx is, or when one of the locks is lost. If one was lost before work returned,
// DoAll returns a [*LostError], joined with the error of work if there is one. If work panics, the locks are released.
func (c *Client) DoAll(
	ctx context.Context, names []string, work func(ctx context.Context, locks *LockSet) error, options ...AcquireOption,
) error {
	if work == nil {
		return invalid("", "work", "must be a function; it is nil")
	}
	locks, err := c.AcquireAll(ctx, names, options...)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(locks)
	defer startReleases(locks.locks) // if work panics
	err = workUnderAll(ctx, locks, work)
	lost := locks.Err()
	for _, released := range releaseAll(ctx, locks.locks) {
		if lost == nil && errors.Is(released, ErrLost) {
			lost = released
		}
	}
	if lost == nil || errors.Is(err, lost) {
		return err
	}
	return errors.Join(lost, err)
}

func workUnderAll(ctx context.Context, locks *LockSet, work func(context.Context, *LockSet) error) error {
	ctx, cancel := locks.WithContext(ctx)
	defer cancel()
	return work(ctx, locks)
}

// wanted are the locks of one call.
type wanted struct {
	// locks are in the order in which all clients acquire them.
	locks   []wantedLock
	options acquireOptions
	until   clock.Moment
	// byTries is whether no lock is waited for: the wait is that for the next try.
	byTries bool
}

type wantedLock struct {
	name   string
	shared bool
}

func newWanted(names []string, options []AcquireOption) (*wanted, error) {
	w := &wanted{options: chosen(options)}
	for _, name := range names {
		w.locks = append(w.locks, wantedLock{name: name})
	}
	for _, name := range w.options.alsoShared {
		w.locks = append(w.locks, wantedLock{name: name, shared: true})
	}
	w.options.alsoShared = nil
	// Go compares strings by their bytes.
	slices.SortFunc(w.locks, func(a, b wantedLock) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(w.locks); i++ {
		if before := w.locks[i-1]; before.name == w.locks[i].name && before.shared != w.locks[i].shared {
			return nil, invalid(before.name, "mode", fmt.Sprintf("of %q cannot be both EXCLUSIVE and SHARED", before.name))
		}
	}
	w.locks = slices.Compact(w.locks)
	if len(w.locks) == 0 || len(w.locks) > facts.SetNamesMax {
		rule := fmt.Sprintf("must be 1 to %d different names; they are %d", facts.SetNamesMax, len(w.locks))
		return nil, invalid("", "names", rule)
	}
	if w.options.requestID != "" {
		return nil, invalid("", "request_id", "belongs to one lock: it cannot be that of several")
	}
	if mode := w.options.modeName(); mode != "" {
		rule := "cannot be " + mode + ": the locks of a set are exclusive, except for those of WithSharedNames"
		return nil, invalid("", "mode", rule)
	}
	w.until = clock.Now().Add(w.options.wait)
	// Checked before the first lock is acquired.
	return w, w.check()
}

// check checks the requests.
func (w *wanted) check() error {
	for _, lock := range w.locks {
		o := w.next(lock)
		if _, err := o.request(lock.name, ""); err != nil {
			return err
		}
	}
	return nil
}

// left is what is left of the wait.
func (w *wanted) left() time.Duration { return max(w.until.Sub(clock.Now()), 0) }

// next are the options of the next lock: it is waited for as long as the one wait allows.
func (w *wanted) next(lock wantedLock) acquireOptions {
	o := w.options
	o.shared = lock.shared
	o.wait = w.left()
	if w.byTries {
		o.wait, o.untilDone = 0, false
	}
	return o
}

// acquireAll ends with all locks, or with nothing that is held: releases and cleanups may go on in the background.
func (c *Client) acquireAll(ctx context.Context, w *wanted) (*LockSet, error) {
	// The wait for a later lock ends when an earlier one does.
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var locks []*Lock
	complete := false
	defer func() {
		if !complete { // also if a function of the caller panics
			startReleases(locks)
		}
	}()
	for _, next := range w.locks {
		o := w.next(next)
		lock, err := c.acquireWith(waiting, next.name, o)
		if err != nil {
			return nil, c.notAllAcquired(ctx, w, locks, next.name, w.waited(o, err))
		}
		lost := lock.lease.ctx
		defer context.AfterFunc(lost, func() { stop(context.Cause(lost)) })()
		locks = append(locks, lock)
	}
	set := newLockSet(ctx, locks)
	if name, err := set.firstEnd(); err != nil {
		return nil, c.notAllAcquired(ctx, w, locks, name, err)
	}
	complete = true
	return set, nil
}

// waited turns the error of a lock whose turn came when the wait was over into that of a wait.
func (w *wanted) waited(o acquireOptions, err error) error {
	var contended *ContendedError
	if o.wait > 0 || w.options.wait == 0 || w.byTries || !errors.As(err, &contended) {
		return err
	}
	return &TimedOutError{
		Name: contended.Name, Holders: contended.Holders, HolderCount: contended.HolderCount,
		Semaphore: contended.Semaphore, Delay: contended.Delay, Waiters: contended.Waiters,
	}
}

// notAllAcquired gives back what was acquired, and returns the error of the call.
func (c *Client) notAllAcquired(ctx context.Context, w *wanted, locks []*Lock, name string, err error) error {
	failed := &NotAllAcquiredError{Count: len(w.locks), Name: name, Cause: err}
	for i := len(locks) - 1; i >= 0; i-- {
		end := locks[i].Err()
		var lost *LostError
		if errors.As(end, &lost) && ctx.Err() == nil {
			failed.Name, failed.Cause = lost.Name, lost
		} else if lost == nil {
			failed.GivenBack = append(failed.GivenBack, locks[i].Name())
		}
	}
	releaseAll(ctx, locks)
	return failed
}
