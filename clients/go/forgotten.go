package fencepost

import (
	"context"
	"runtime"

	"github.com/fencepost/fencepost-go/internal/clock"
)

// A lock is forgotten if its program can no longer reach it: an acquire was given up without its context, or a release
// was left out. The client refers to the lease of a lock alone, so the garbage collector finds out.

// A lockContext is a context of a lock or of a set of locks, and keeps them: work that has only the context is still
// under them.
type lockContext struct {
	context.Context
	keeps any
}

// newLock hands out a lease.
func newLock(c *Client, held *lease, previous LeaseEnd) *Lock {
	lock := &Lock{owner: c, lease: held, previousEnd: previous}
	runtime.AddCleanup(lock, c.releaseForgotten, held)
	return lock
}

// releaseForgotten releases a lease whose lock is no longer reachable, unless it has been released or lost. It takes a
// few instructions: all cleanups of the process share a goroutine.
func (c *Client) releaseForgotten(held *lease) {
	if held.state(clock.Now()).end != nil {
		return
	}
	c.events.forgotten(held)
	c.startRelease(held, ErrReleased)
}
