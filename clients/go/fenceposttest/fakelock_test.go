package fenceposttest_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

func TestAFakeLockIsHeldUntilItIsReleased(t *testing.T) {
	fake := fenceposttest.NewFakeLock("orders/42", 7)
	runtime.GC() // no client looks for forgotten locks
	lock := fake.Lock
	if lock.Name() != "orders/42" || lock.Token() != 7 || lock.GrantID() == "" || lock.Holder() == "" ||
		lock.PreviousEnd() != fencepost.EndReleased || lock.String() != "orders/42 (token 7)" {
		t.Fatalf("got %#v, %q after %v", lock, lock.Holder(), lock.PreviousEnd())
	}
	ctx, cancel := lock.WithContext(t.Context())
	defer cancel()
	if !lock.Valid() || lock.Remaining() < time.Hour || lock.Err() != nil || ctx.Err() != nil || fake.Released() {
		t.Fatalf("valid %v, for %v: %v", lock.Valid(), lock.Remaining(), lock.Err())
	}
	for range 2 {
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		fake.Lose() // has no effect any more
	}
	if lock.Valid() || lock.Remaining() != 0 || !errors.Is(lock.Err(), fencepost.ErrReleased) || !fake.Released() {
		t.Fatalf("valid %v, for %v: %v", lock.Valid(), lock.Remaining(), lock.Err())
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, fencepost.ErrReleased) {
		t.Fatalf("got %v", cause)
	}
	if other := fenceposttest.NewFakeLock("orders/42", 7); other.GrantID() == lock.GrantID() {
		t.Fatal("two grants have one id")
	}
}

func TestAFakeLockIsLost(t *testing.T) {
	fake := fenceposttest.NewFakeLock("orders/42", 7)
	fake.Lose()
	<-fake.Context().Done()
	var loss *fencepost.LostError
	if !errors.As(context.Cause(fake.Context()), &loss) ||
		*loss != (fencepost.LostError{Name: "orders/42", Token: 7, Reason: fencepost.LossRevoked}) {
		t.Fatalf("got %v", context.Cause(fake.Context()))
	}
	if fake.Valid() || fake.Remaining() != 0 || fake.Released() {
		t.Fatalf("valid %v, for %v, released %v", fake.Valid(), fake.Remaining(), fake.Released())
	}
	for range 2 {
		if err := fake.Release(t.Context()); !errors.Is(err, loss) || !fake.Released() {
			t.Fatalf("got %v, released %v", err, fake.Released())
		}
	}
}

func TestAFakeLockIsConverted(t *testing.T) {
	fake := fenceposttest.NewFakeLock("orders/42", 7)
	if err := fake.Downgrade(t.Context()); err != nil || fake.Mode() != fencepost.ModeShared || fake.Token() != 7 {
		t.Fatalf("token %d, held as %v: %v", fake.Token(), fake.Mode(), err)
	}
	for range 2 {
		upgraded, err := fake.TryUpgrade(t.Context())
		if err != nil || !upgraded || fake.Mode() != fencepost.ModeExclusive || fake.Token() != 8 {
			t.Fatalf("token %d, held as %v: %v, %v", fake.Token(), fake.Mode(), upgraded, err)
		}
	}
	fake.Lose()
	if err := fake.Downgrade(t.Context()); !errors.Is(err, fencepost.ErrLost) {
		t.Fatalf("got %v", err)
	}
}

func TestAFakeLockIsDescribed(t *testing.T) {
	fake := fenceposttest.NewFakeLock("orders/42", 7)
	number, err := fake.Describe(t.Context(), nil, "worker")
	if err != nil || number != 1 || fake.Holder() != "worker" || fake.IsWanted() {
		t.Fatalf("got %d, %q, %v", number, fake.Holder(), err)
	}
	fake.Lose()
	if _, err := fake.Describe(t.Context(), nil, ""); !errors.Is(err, fencepost.ErrLost) {
		t.Fatalf("got %v", err)
	}
}
