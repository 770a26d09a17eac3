package fenceposttest

import (
	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/internal/fakes"
)

// A FakeLock is a lock without a server, for unit tests of code that takes a lock. Lock is what the code gets: a
// [fencepost.Lock] as a client returns, which excludes nobody and is valid for a day. It has no options: no max_hold
// ends it, no min_hold or lock_delay keeps a lock unavailable after it, and it is no semaphore. It converts as it is
// told, since nobody else holds it: [fencepost.Lock.TryUpgrade] after a Downgrade raises the token by one. A
// description changes its label, and nobody ever wants it. A server ([Start]) honours all options.
//
//	fake := fenceposttest.NewFakeLock("orders/42", 7)
//	err := ship(ctx, fake.Lock)
type FakeLock struct {
	*fencepost.Lock

	lose     func()
	released <-chan struct{}
}

// NewFakeLock makes a lock that is held.
func NewFakeLock(name string, token uint64) *FakeLock {
	made := fakes.New(name, token)
	return &FakeLock{Lock: made.Lock.(*fencepost.Lock), lose: made.Lose, released: made.Released}
}

// Lose makes the lock lost, as if an operator had revoked its lease. It has no effect on a lock that has ended.
func (f *FakeLock) Lose() { f.lose() }

// Released reports whether Release was called, on a lock that is held or lost.
func (f *FakeLock) Released() bool {
	select {
	case <-f.released:
		return true
	default:
		return false
	}
}
