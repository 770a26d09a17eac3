package fencepost

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost-go/internal/clock"
	"github.com/fencepost/fencepost-go/internal/fakes"
)

// fakeTTL is how long a lock of fenceposttest is valid: longer than any test runs, also in a debugger.
const fakeTTL = 24 * time.Hour

func init() { fakes.New = newFakeLock }

// newFakeLock makes a lock without a server, for fenceposttest.
func newFakeLock(name string, token uint64) fakes.Lock {
	held := &lease{
		released:   make(chan struct{}),
		name:       name,
		grantID:    uuid.NewString(),
		holder:     "fake",
		token:      token,
		validUntil: clock.Now().Add(fakeTTL),
		ttl:        fakeTTL,
	}
	held.ctx, held.cancel = context.WithCancelCause(context.Background())
	return fakes.Lock{
		Lock: &Lock{owner: nobody{}, lease: held, previousEnd: EndReleased},
		Lose: func() {
			held.finish(clock.Now(), &LostError{Name: name, Token: token, Reason: LossRevoked})
		},
		Released: held.released,
	}
}

// nobody is the owner of a lock without a server: its release is answered at once.
type nobody struct{}

func (nobody) startRelease(held *lease, end error) {
	held.releaseOnce.Do(func() {
		now := clock.Now()
		held.finish(now, end)
		var lost *LostError
		if errors.As(held.state(now).end, &lost) {
			held.releaseErr = lost
		}
		close(held.released)
	})
}
