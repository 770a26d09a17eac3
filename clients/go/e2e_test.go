//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// patience bounds all waits of the tests: far more than any of them takes.
const patience = 60 * time.Second

// newClient creates a client that the end of the test closes.
func newClient(t *testing.T, servers ...string) *fencepost.Client {
	t.Helper()
	client, err := fencepost.New(fencepost.Config{Servers: servers, Holder: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// acquire waits for a lock, and keeps it from being forgotten until the end of the test.
func acquire(t *testing.T, client *fencepost.Client, name string, options ...fencepost.AcquireOption) *fencepost.Lock {
	t.Helper()
	lock, err := client.Acquire(testContext(t), name, append(options, fencepost.WithWaitUntilDone())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runtime.KeepAlive(lock) })
	return lock
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// as returns the error as one of its type.
func as[T error](t *testing.T, err error) T {
	t.Helper()
	var found T
	if !errors.As(err, &found) {
		t.Fatalf("got %v, want a %T", err, found)
	}
	return found
}

func TestTokensRiseAndReleaseIsIdempotent(t *testing.T) {
	server := fenceposttest.Start(t)
	client, ctx := newClient(t, server.Address), testContext(t)
	var last uint64
	for range 5 {
		lock := acquire(t, client, "orders/42")
		if lock.Token() <= last || !lock.Valid() || lock.Remaining() <= 0 || lock.Err() != nil {
			t.Fatalf("token %d after %d, valid %v", lock.Token(), last, lock.Valid())
		}
		if lock.Name() != "orders/42" || lock.GrantID() == "" || lock.Holder() != t.Name() {
			t.Fatalf("got %q, %q, %q", lock.Name(), lock.GrantID(), lock.Holder())
		}
		last = lock.Token()
		for range 2 {
			must(t, lock.Release(ctx))
		}
		if lock.Valid() || lock.Remaining() != 0 || !errors.Is(context.Cause(lock.Context()), fencepost.ErrReleased) {
			t.Fatalf("valid %v, cause %v", lock.Valid(), context.Cause(lock.Context()))
		}
	}
	next := acquire(t, client, "orders/42")
	if next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
}

func TestContendedSaysWhoHoldsTheLock(t *testing.T) {
	server := fenceposttest.Start(t)
	first, second := newClient(t, server.Address), newClient(t, server.Address)
	held := acquire(t, first, "orders/42", fencepost.WithHolder("first"),
		fencepost.WithMetadata(map[string]string{"job": "7"}))
	_, err := second.TryAcquire(testContext(t), "orders/42")
	contended := as[*fencepost.ContendedError](t, err)
	if !errors.Is(err, fencepost.ErrContended) || len(contended.Holders) != 1 || contended.Waiters != 0 {
		t.Fatalf("got %+v", contended)
	}
	holder := contended.Holders[0]
	if holder.Holder != "first" || holder.Token != held.Token() || holder.GrantID != held.GrantID() ||
		holder.TTL != 30*time.Second || holder.ExpiresIn <= 0 || holder.Metadata["job"] != "7" {
		t.Fatalf("got %+v", holder)
	}
	if got := err.Error(); got != `fencepost: orders/42 is held by first, 0 waiting` {
		t.Fatal(got)
	}
}

func TestAWaitEnds(t *testing.T) {
	server := fenceposttest.Start(t)
	first, second := newClient(t, server.Address), newClient(t, server.Address)
	acquire(t, first, "orders/42")

	_, err := second.Acquire(testContext(t), "orders/42", fencepost.WithWait(50*time.Millisecond))
	timedOut := as[*fencepost.TimedOutError](t, err)
	if !errors.Is(err, fencepost.ErrTimedOut) || errors.Is(err, context.DeadlineExceeded) ||
		timedOut.Holders[0].Holder != t.Name() {
		t.Fatalf("got %v", err)
	}

	// The deadline of the context ends the wait in time for an answer that says who holds the lock.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = second.Acquire(ctx, "orders/42", fencepost.WithWaitUntilDone())
	timedOut = as[*fencepost.TimedOutError](t, err)
	if !errors.Is(err, fencepost.ErrTimedOut) || !errors.Is(err, context.DeadlineExceeded) || len(timedOut.Holders) != 1 {
		t.Fatalf("got %v", err)
	}

	// A cancelled wait leaves the queue.
	ctx, cancel = context.WithCancel(context.Background())
	_, err = second.Acquire(ctx, "orders/42", fencepost.WithWaitUntilDone(),
		fencepost.WithOnQueuePosition(func(int) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	eventually(t, "the queue is empty", func() bool {
		info, err := first.Get(testContext(t), "orders/42")
		must(t, err)
		return info.Waiters == 0
	})
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
