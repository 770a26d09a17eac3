package fencepost

import (
	"context"
	"errors"
	"runtime"
)

// Do acquires a lock as [Client.Acquire] does, with the same options, calls work, and releases the lock. It never calls
// work without the lock.
//
// The context of work is done when ctx is, or when the lock is lost. Send the token with every write to the store that
// the lock protects. If the lock was lost before work returned, Do returns a [*LostError], joined with the error of work
// if there is one: what work did after the loss was protected by the token alone.
//
// A release without an answer is no error of Do: it is repeated in the background. If work panics, the lock is released.
func (c *Client) Do(
	ctx context.Context, name string, work func(ctx context.Context, token uint64) error, options ...AcquireOption,
) error {
	if work == nil {
		return invalid(name, "work", "must be a function; it is nil")
	}
	lock, err := c.Acquire(ctx, name, options...)
	if err != nil {
		return err
	}
	return c.workUnder(ctx, lock, func(ctx context.Context) error { return work(ctx, lock.Token()) }).err()
}

// worked is what has become of work under a lock.
type worked struct {
	// failed is the error of the work.
	failed error
	// ended is why the lock was no longer held when the work returned; nil if it was held.
	ended error
	// released is the error of the release.
	released error
}

// workUnder calls work, and then releases the lock, also if work panics.
func (c *Client) workUnder(ctx context.Context, lock *Lock, work func(context.Context) error) (done worked) {
	defer runtime.KeepAlive(lock)                 // it is not forgotten before it is released
	defer c.startRelease(lock.lease, ErrReleased) // if work panics
	done.failed = workWith(ctx, lock, work)
	done.ended = lock.Err()
	done.released = lock.Release(ctx)
	return done
}

func workWith(ctx context.Context, lock *Lock, work func(context.Context) error) error {
	ctx, cancel := lock.WithContext(ctx)
	defer cancel()
	return work(ctx)
}

// err is the error of the work, joined with the end of the lock unless that is its release.
func (w worked) err() error {
	ended := w.ended
	if ended == nil && errors.Is(w.released, ErrLost) {
		ended = w.released
	}
	if ended == nil || errors.Is(w.failed, ended) {
		return w.failed
	}
	return errors.Join(ended, w.failed)
}
