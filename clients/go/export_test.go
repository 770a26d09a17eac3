package fencepost

import (
	"context"
	"errors"
)

// IdleState reports whether the session has ended and nothing keeps locks, and why the last session failed.
func IdleState(c *Client) (idle bool, failed error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastFailure != nil {
		failed = errors.New(c.lastFailure.Error())
	}
	return c.current == nil && !c.keeping, failed
}

// GrantDuringClose begins to close the client of a lock, and hands out the lease of the lock afterwards. The client is
// open for the release until ended is called.
func GrantDuringClose(ctx context.Context, c *Client, lock *Lock) (late *Lock, ended func(), err error) {
	c.beginClose()
	request, err := (&acquireOptions{}).request(lock.Name(), "")
	if err != nil {
		return nil, c.finish, err
	}
	late, _, err = newAttempts(ctx, c, request, acquireOptions{}).granted(lock.lease, EndReleased)
	return late, c.finish, err
}
