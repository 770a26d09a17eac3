package fencepost

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
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
		changing:   make(chan struct{}, 1),
		wanted:     make(chan struct{}),
		validUntil: clock.Now().Add(fakeTTL),
		ttl:        fakeTTL,
	}
	label := "fake"
	held.holder.Store(&label)
	held.token.Store(token)
	held.ctx, held.cancel = context.WithCancelCause(context.Background())
	return fakes.Lock{
		Lock: &Lock{owner: nobody{}, lease: held, previousEnd: EndReleased},
		Lose: func() {
			held.finish(clock.Now(), &LostError{Name: name, Token: held.token.Load(), Reason: LossRevoked})
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

func (nobody) describe(ctx context.Context, held *lease, _ map[string]string, holder string) (uint64, error) {
	if err := held.beginChange(ctx); err != nil {
		return 0, err
	}
	defer held.endChange()
	number := max(held.description, 1)
	held.described(number, holder)
	return number, nil
}

func (nobody) convert(ctx context.Context, held *lease, mode pb.LockMode) (bool, error) {
	if err := held.beginChange(ctx); err != nil {
		return false, err
	}
	defer held.endChange()
	token := held.token.Load()
	if mode == pb.LockMode_LOCK_MODE_EXCLUSIVE && held.shared.Load() {
		token++
	}
	return true, held.converted(clock.Now(), token, mode)
}
