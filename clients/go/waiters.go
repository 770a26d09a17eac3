package fencepost

import (
	"context"
	"iter"
	"time"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
)

// waitersMax is the maximum number of waiters on one page.
const waitersMax = 100

// A LockWaiter is a request that waits for a lock.
type LockWaiter struct {
	// Holder is the label of the request.
	Holder string
	// Owner is the owner that the request named; it proves nothing.
	Owner string
	// Identity is who waits, as the server verified it; empty if the server verifies nobody.
	Identity string
	// ID distinguishes the request from others, and stays the same while it waits.
	ID string
	// Mode is the mode that it waits for.
	Mode LockMode
	// Permits are those of a semaphore that it waits for; otherwise 0.
	Permits uint32
	// WaitingSince is the time since it came. It counts anew when another server takes the lock over.
	WaitingSince time.Duration
	// Skipped is whether the queue passes over it now, and keeps its place for a few seconds: its call was dropped or
	// does not read, or its server is silent.
	Skipped bool
}

// Waiters iterates over those who wait for a lock, the next first. It reads the queue in pages of 100: requests may
// join and leave between two pages. An error ends the iteration.
func (c *Client) Waiters(ctx context.Context, name string) iter.Seq2[LockWaiter, error] {
	return func(yield func(LockWaiter, error) bool) {
		if err := checkUTF8(name, "lock_name", name); err != nil {
			yield(LockWaiter{}, err)
			return
		}
		request := &pb.ListWaitersRequest{LockName: name, PageSize: waitersMax}
		for {
			list := func(ctx context.Context, stub pb.LockServiceClient) (*pb.ListWaitersResponse, error) {
				return stub.ListWaiters(ctx, request)
			}
			page, err := call(ctx, c, name, list)
			if err != nil {
				yield(LockWaiter{}, err)
				return
			}
			for _, waiter := range page.GetWaiters() {
				if !yield(lockWaiter(waiter), nil) {
					return
				}
			}
			if page.GetNextPageToken() == "" {
				return
			}
			request = &pb.ListWaitersRequest{LockName: name, PageSize: waitersMax, PageToken: page.GetNextPageToken()}
		}
	}
}

func lockWaiter(wire *pb.LockWaiter) LockWaiter {
	return LockWaiter{
		Holder:       wire.GetHolder(),
		Owner:        wire.GetOwner(),
		Identity:     wire.GetIdentity(),
		ID:           wire.GetWaiterId(),
		Mode:         lockMode(wire.GetMode()),
		Permits:      wire.GetPermits(),
		WaitingSince: duration(wire.GetWaitingSince()),
		Skipped:      wire.GetSkipped(),
	}
}
