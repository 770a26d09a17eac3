package fencepost

import (
	"context"
	"runtime"

	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// A LockMode says which other holders a lock excludes.
type LockMode string

// The modes of a lock.
const (
	// ModeExclusive: nobody else holds the lock.
	ModeExclusive LockMode = "exclusive"
	// ModeShared: others share the lock, see [WithShared].
	ModeShared LockMode = "shared"
	// ModeSemaphore: others have permits of it, see [WithSemaphore].
	ModeSemaphore LockMode = "semaphore"
)

func lockMode(mode pb.LockMode) LockMode {
	switch mode {
	case pb.LockMode_LOCK_MODE_SHARED:
		return ModeShared
	case pb.LockMode_LOCK_MODE_SEMAPHORE:
		return ModeSemaphore
	default:
		return ModeExclusive
	}
}

// Mode is the mode in which the lock is held: the one that was asked for, or that of the last conversion.
func (l *Lock) Mode() LockMode { return l.lease.mode() }

// Downgrade lets others share the lock from now on: it stays held without a moment in between, and keeps its token.
// Readers that are next in the queue get the lock at once, and a writer that waits comes after them. Stop writing
// before you call this, because readers may come in although no answer arrives. A lock that is shared already stays so.
//
// Errors: a [*LostError] or [ErrReleased] if the lock has ended; a [*RefusedError] (NOT_CONVERTIBLE for a lock of
// [WithSemaphore]; TOKEN_OUTDATED if the lock was converted since, see
// [Lock.TryUpgrade]); an [*OutcomeUnknownError] if no server has answered within 10 s, or ctx was done before that. In
// that case the lock may be shared; call Downgrade again to find out.
func (l *Lock) Downgrade(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	_, err := l.owner.convert(ctx, l.lease, pb.LockMode_LOCK_MODE_SHARED)
	return err
}

// TryUpgrade makes a shared lock exclusive, if nobody else shares it or is offered it: false if somebody does, and it
// stays shared. It never waits for them, because two readers would wait for each other. A lock that is exclusive
// already stays so, with a new token.
//
// Afterwards the lock has a new, higher token: read [Lock.Token] for each write. Errors are those of [Lock.Downgrade].
// After an [*OutcomeUnknownError] the lock may be exclusive, and its Token may be outdated: call TryUpgrade again
// before the next write.
func (l *Lock) TryUpgrade(ctx context.Context) (upgraded bool, err error) {
	defer runtime.KeepAlive(l)
	return l.owner.convert(ctx, l.lease, pb.LockMode_LOCK_MODE_EXCLUSIVE)
}

// convert asks for a mode, and reports whether the lease has it. Changes of one lease take turns.
func (c *Client) convert(ctx context.Context, held *lease, mode pb.LockMode) (bool, error) {
	if err := held.beginChange(ctx); err != nil {
		return false, err
	}
	defer held.endChange()
	request := &pb.ConvertRequest{LockName: held.name, LeaseId: held.id, FencingToken: held.token.Load(), Mode: mode}
	convert := func(
		ctx context.Context, stub pb.LockServiceClient, option grpc.CallOption,
	) (*pb.ConvertResponse, error) {
		return stub.Convert(ctx, request, option)
	}
	answer, err := change(ctx, c, held, convert)
	if err != nil {
		return false, err
	}
	switch answer.GetOutcome() {
	case pb.ConvertResponse_OUTCOME_CONVERTED:
		return true, held.converted(clock.Now(), answer.GetFencingToken(), mode)
	case pb.ConvertResponse_OUTCOME_CONTENDED:
		return false, nil
	case pb.ConvertResponse_OUTCOME_LOST:
		return false, c.toldLost(held, held.lost(answer.GetEnd(), answer.GetSuccessorToken()))
	default:
		return false, unknownAnswer("a conversion").public(held.name)
	}
}

// converted records the mode and the token of a lease, unless it has ended. The error is its end.
func (l *lease) converted(now clock.Moment, token uint64, mode pb.LockMode) error {
	l.update(now, func() {
		l.token.Store(token)
		l.shared.Store(mode == pb.LockMode_LOCK_MODE_SHARED)
	})
	return l.state(now).end
}

// mode is that of the lease now.
func (l *lease) mode() LockMode {
	switch {
	case l.permits != 0:
		return ModeSemaphore
	case l.shared.Load():
		return ModeShared
	default:
		return ModeExclusive
	}
}
