//go:build unix

package fencepost_test

import (
	"errors"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

func TestThoseWhoWaitAreListedInOrder(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, startFront(t, server.Address, pass).address)
	lock := acquire(t, client, "orders/42", fencepost.WithOwner("job-0"))
	first := acquiring(t, client, fencepost.WithHolder("first"), fencepost.WithOwner("job-1"), fencepost.WithSemaphore(5),
		fencepost.WithPermits(2))
	waiting(t, client, "orders/42", 1)
	second := acquiring(t, client, fencepost.WithHolder("second"))
	waiting(t, client, "orders/42", 2)
	third := acquiring(t, client, fencepost.WithHolder("third"), fencepost.WithSemaphore(5))
	waiting(t, client, "orders/42", 3)
	var seen []fencepost.LockWaiter
	ids := map[string]bool{}
	for waiter, err := range other.Waiters(testContext(t), "orders/42") {
		must(t, err)
		ids[waiter.ID] = true
		if waiter.WaitingSince > patience || waiter.Skipped {
			t.Fatalf("got %+v", waiter)
		}
		waiter.ID, waiter.WaitingSince = "", 0
		seen = append(seen, waiter)
	}
	want := []fencepost.LockWaiter{
		{Holder: "first", Owner: "job-1", Mode: fencepost.ModeSemaphore, Permits: 2},
		{Holder: "second", Mode: fencepost.ModeExclusive},
		{Holder: "third", Mode: fencepost.ModeSemaphore, Permits: 1},
	}
	if len(seen) != len(want) || len(ids) != len(want) || ids[""] {
		t.Fatalf("got %+v", seen)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Errorf("got %+v, want %+v", seen[i], want[i])
		}
	}
	info, err := other.Get(testContext(t), "orders/42")
	if err == nil && info.Holders[0].Owner != "job-0" {
		t.Fatalf("got %+v", info.Holders)
	}
	for _, next := range []func() *fencepost.Lock{first, second, third} {
		must(t, lock.Release(testContext(t)))
		lock = next()
	}
}

func TestAnAcquireDoesNotWaitBehindTooMany(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	ctx := testContext(t)
	lock := acquire(t, client, "orders/42")
	first := acquiring(t, client, fencepost.WithMaxWaiters(1))
	waiting(t, client, "orders/42", 1)
	for _, wait := range []fencepost.AcquireOption{
		fencepost.WithWait(patience), fencepost.WithWaitUntilDone(), fencepost.WithWait(0),
	} {
		_, err := other.Acquire(ctx, "orders/42", fencepost.WithMaxWaiters(1), wait)
		contended := as[*fencepost.ContendedError](t, err)
		if contended.Waiters != 1 || contended.Holders[0].Token != lock.Token() || errors.Is(err, fencepost.ErrTimedOut) {
			t.Fatalf("got %+v", contended)
		}
	}
	_, err := other.Acquire(ctx, "orders/42", fencepost.WithMaxWaiters(2), fencepost.WithWait(50*time.Millisecond))
	_ = as[*fencepost.TimedOutError](t, err)
	must(t, lock.Release(ctx))
	_ = first()
}
