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
	defer runtime.KeepAlive(lock)                 // it is not forgotten before it is released
	defer c.startRelease(lock.lease, ErrReleased) // if work panics
	err = c.workUnder(ctx, lock, work)
	lost := lock.Err()
	released := lock.Release(ctx)
	if lost == nil && errors.Is(released, ErrLost) {
		lost = released
	}
	if lost == nil || errors.Is(err, lost) {
		return err
	}
	return errors.Join(lost, err)
}

func (c *Client) workUnder(ctx context.Context, lock *Lock, work func(context.Context, uint64) error) error {
	ctx, cancel := lock.WithContext(ctx)
	defer cancel()
	return work(ctx, lock.Token())
}
