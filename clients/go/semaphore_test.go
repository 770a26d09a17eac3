//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// hasSlot checks the permits and the slot of a lock; 0 is no slot.
func hasSlot(t *testing.T, lock *fencepost.Lock, permits, slot uint32) {
	t.Helper()
	if found, ok := lock.Slot(); lock.Permits() != permits || found != slot || ok != (slot != 0) {
		t.Fatalf("%v has %d permits and slot %d (%v), want %d and %d", lock, lock.Permits(), found, ok, permits, slot)
	}
}

// isRefused checks that the state of the lock is why a request was refused.
func isRefused(t *testing.T, err error, reason string) {
	t.Helper()
	refused := as[*fencepost.RefusedError](t, err)
	if refused.Code != codes.FailedPrecondition || refused.Reason != reason {
		t.Fatalf("got %v, want %s", err, reason)
	}
}

// acquiring acquires a lock on a goroutine of its own.
func acquiring(t *testing.T, client *fencepost.Client, options ...fencepost.AcquireOption) func() *fencepost.Lock {
	t.Helper()
	type result struct {
		lock *fencepost.Lock
		err  error
	}
	ctx, done := testContext(t), make(chan result, 1)
	go func() {
		lock, err := client.Acquire(ctx, "orders/42", append(options, fencepost.WithWaitUntilDone())...)
		done <- result{lock, err}
	}()
	return func() *fencepost.Lock {
		got := <-done
		must(t, got.err)
		return got.lock
	}
}

func TestHoldersOfASemaphoreHaveSlots(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	ctx, semaphore := testContext(t), fencepost.WithSemaphore(2)
	first := acquire(t, client, "orders/42", semaphore, fencepost.WithHolder("first"))
	second := acquire(t, other, "orders/42", semaphore, fencepost.WithHolder("second"))
	hasSlot(t, first, 1, 1)
	hasSlot(t, second, 1, 2)

	_, err := client.TryAcquire(ctx, "orders/42", semaphore)
	contended := as[*fencepost.ContendedError](t, err)
	_, err = client.Acquire(ctx, "orders/42", semaphore, fencepost.WithWait(50*time.Millisecond))
	timedOut := as[*fencepost.TimedOutError](t, err)
	if !strings.HasSuffix(err.Error(), ": it is held by first and second, 0 waiting") {
		t.Fatal(err)
	}
	info, err := client.Get(ctx, "orders/42")
	must(t, err)
	for _, holders := range [][]fencepost.LockHolder{timedOut.Holders, info.Holders} {
		if len(holders) != 2 || holders[0].Token != first.Token() || holders[1].Token != second.Token() {
			t.Fatalf("got %+v", holders)
		}
		for i, holder := range holders {
			if holder.Permits != 1 || holder.Slot != uint32(i+1) || holder.Shared {
				t.Fatalf("got %+v", holder)
			}
		}
	}

	used := fencepost.Semaphore{PermitsUsed: 2, PermitLimit: 2}
	for _, permits := range []*fencepost.Semaphore{contended.Semaphore, timedOut.Semaphore, info.Semaphore} {
		if permits == nil || *permits != used {
			t.Fatalf("got %+v", permits)
		}
	}

	third := acquiring(t, client, semaphore)
	waiting(t, other, "orders/42", 1)
	must(t, first.Release(ctx))
	lock := third()
	hasSlot(t, lock, 1, 1)
	must(t, errors.Join(second.Release(ctx), lock.Release(ctx)))
	hasSlot(t, acquire(t, other, "orders/42"), 0, 0)
	info, err = client.Get(ctx, "orders/42")
	must(t, err)
	if info.Semaphore != nil {
		t.Fatalf("got %+v", info.Semaphore)
	}
}

func TestSeveralPermitsAreOneLockWithoutASlot(t *testing.T) {
	t.Parallel()
	client, ctx := newClient(t, fenceposttest.Start(t).Address), testContext(t)
	two := acquire(t, client, "orders/42", fencepost.WithSemaphore(3), fencepost.WithPermits(2))
	hasSlot(t, two, 2, 0)
	info, err := client.Get(ctx, "orders/42")
	must(t, err)
	if info.Holders[0].Permits != 2 || info.Holders[0].Slot != 0 {
		t.Fatalf("got %+v", info.Holders)
	}
	_, err = client.TryAcquire(ctx, "orders/42", fencepost.WithSemaphore(3), fencepost.WithPermits(2))
	_ = as[*fencepost.ContendedError](t, err)
	hasSlot(t, acquire(t, client, "orders/42", fencepost.WithSemaphore(3)), 1, 1)
}

func TestAChangedLimitNeedsAHigherVersion(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	first := acquire(t, client, "orders/42", fencepost.WithSemaphore(1))
	_, err := other.Acquire(testContext(t), "orders/42", fencepost.WithSemaphore(2), fencepost.WithWaitUntilDone())
	isRefused(t, err, "PERMIT_LIMIT_MISMATCH")
	if !strings.Contains(err.Error(), "limit 1 of version 0 is in force") {
		t.Fatal(err)
	}
	second := acquiring(t, other, fencepost.WithSemaphore(1))
	waiting(t, client, "orders/42", 1)
	// The new limit has room for the waiter and for the request that names it.
	third := acquire(t, client, "orders/42", fencepost.WithSemaphore(3), fencepost.WithPermitLimitVersion(1))
	waited := second() // its permit is offered, and not used before it is there
	info, err := client.Get(testContext(t), "orders/42")
	must(t, err)
	if *info.Semaphore != (fencepost.Semaphore{PermitsUsed: 3, PermitLimit: 3, PermitLimitVersion: 1}) {
		t.Fatalf("got %+v", info.Semaphore)
	}
	one, _ := first.Slot()
	two, _ := waited.Slot()
	three, _ := third.Slot()
	if one != 1 || two+three != 2+3 || two == three {
		t.Fatalf("slots %d, %d and %d", one, two, three)
	}
}

func TestALockIsEitherSharedOrASemaphore(t *testing.T) {
	t.Parallel()
	client, ctx := newClient(t, fenceposttest.Start(t).Address), testContext(t)
	acquire(t, client, "shared", fencepost.WithShared())
	_, err := client.Acquire(ctx, "shared", fencepost.WithSemaphore(2), fencepost.WithWaitUntilDone())
	isRefused(t, err, "MODE_MISMATCH")
	acquire(t, client, "semaphore", fencepost.WithSemaphore(2))
	_, err = client.Acquire(ctx, "semaphore", fencepost.WithShared(), fencepost.WithWaitUntilDone())
	isRefused(t, err, "MODE_MISMATCH")
}

func TestWhatIsSentOfASemaphore(t *testing.T) {
	t.Parallel()
	front := startFront(t, fenceposttest.Start(t).Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		return response
	})
	client := newClient(t, front.address)
	acquire(t, client, "a", fencepost.WithSemaphore(5))
	acquire(t, client, "b", fencepost.WithSemaphore(5), fencepost.WithPermits(2), fencepost.WithPermitLimitVersion(1<<60))
	sent := front.acquires()
	if len(sent) != 2 || sent[0].GetMode() != pb.LockMode_LOCK_MODE_SEMAPHORE || sent[0].GetPermitLimit() != 5 ||
		sent[0].GetPermits() != 1 || sent[0].GetPermitLimitVersion() != 0 ||
		sent[1].GetPermits() != 2 || sent[1].GetPermitLimitVersion() != 1<<60 {
		t.Fatalf("sent %v", sent)
	}
}

func TestWhatDoesNotGoWithASemaphore(t *testing.T) {
	t.Parallel()
	client, ctx := newClient(t, fenceposttest.Start(t).Address), testContext(t)
	nobody := newClient(t, "127.0.0.1:1") // what is refused here is not sent
	semaphore := fencepost.WithSemaphore(2)
	acquired := func(client *fencepost.Client, options ...fencepost.AcquireOption) error {
		_, err := client.Acquire(ctx, "a", options...)
		return err
	}
	_, all := nobody.AcquireAll(ctx, abc, semaphore)
	_, try := nobody.TryAll(ctx, abc, semaphore)
	led := nobody.Lead(ctx, "a", func(context.Context, *fencepost.Lock) error { return nil }, semaphore)
	for _, refusal := range []struct {
		err   error
		field string
		text  string
	}{
		{acquired(client, fencepost.WithSemaphore(0)), "permit_limit", "permit_limit must be 1 to 1000000"},
		{acquired(client, semaphore, fencepost.WithPermits(3)), "permits", "permits must be"},
		{acquired(nobody, semaphore, fencepost.WithShared()), "mode", "mode cannot be both SHARED and SEMAPHORE"},
		{acquired(nobody, fencepost.WithPermits(1)), "permits", "permits must be 0 unless the mode is SEMAPHORE"},
		{acquired(nobody, fencepost.WithPermitLimitVersion(1)), "permit_limit_version", "permit_limit_version must be 0"},
		{all, "mode", "mode cannot be SEMAPHORE: the locks of a set are exclusive"},
		{try, "mode", "mode cannot be SEMAPHORE: the locks of a set are exclusive"},
		{led, "mode", "mode cannot be SEMAPHORE: an election has one leader at a time"},
	} {
		refused := as[*fencepost.RefusedError](t, refusal.err)
		if refused.Violations[0].Field != refusal.field || !strings.HasPrefix(refused.Error(), "fencepost: "+refusal.text) {
			t.Errorf("got %v, want %s", refused, refusal.text)
		}
	}
}
