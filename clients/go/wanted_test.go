//go:build unix

package fencepost_test

import (
	"testing"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

func TestAHolderIsToldWhenItsLockIsWanted(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	tell := fencepost.WithTellWhenWanted()
	lock := acquire(t, client, "orders/42", tell, fencepost.WithShared())
	reader := acquire(t, client, "orders/42", fencepost.WithShared())
	if lock.IsWanted() || lock.WantedMode() != "" {
		t.Fatal("nobody waits")
	}
	next := acquiring(t, other, tell)
	within(t, lock.Wanted())
	if !lock.IsWanted() || lock.WantedMode() != fencepost.ModeExclusive || reader.IsWanted() || !lock.Valid() {
		t.Fatalf("wanted: %v, the reader that did not ask: %v", lock.IsWanted(), reader.IsWanted())
	}
	// The grant tells of one that waits already.
	last := acquiring(t, client)
	waiting(t, client, "orders/42", 2)
	must(t, lock.Release(testContext(t)))
	must(t, reader.Release(testContext(t)))
	granted := next()
	within(t, granted.Wanted())
	must(t, granted.Release(testContext(t)))
	_ = last()
}

// A server tells it for each attachment.
func TestAHolderMayBeToldTwice(t *testing.T) {
	t.Parallel()
	front := startFront(t, fenceposttest.Start(t).Address, pass)
	lock := acquire(t, newClient(t, front.address), "orders/42")
	granted := front.sent(func(r *pb.SessionRequest) bool { return r.GetAcquire() != nil })
	for _, handle := range []uint32{granted[0].GetAcquire().GetHandle(), granted[0].GetAcquire().GetHandle(), 1 << 30} {
		wanted := &pb.Wanted{Handle: handle, Mode: pb.LockMode_LOCK_MODE_SHARED}
		front.deliver(t, &pb.SessionResponse{Message: &pb.SessionResponse_Wanted{Wanted: wanted}})
	}
	within(t, lock.Wanted())
	if lock.WantedMode() != fencepost.ModeShared {
		t.Fatalf("got %q", lock.WantedMode())
	}
	must(t, lock.Release(testContext(t)))
}
