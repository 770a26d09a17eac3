//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

var abc = []string{"a", "b", "c"}

// isFree reports whether a lock was given back: long before its TTL, and by a release.
func isFree(t *testing.T, client *fencepost.Client, name string) bool {
	t.Helper()
	info, err := client.Get(testContext(t), name)
	must(t, err)
	return len(info.Holders) == 0 && info.PreviousEnd == fencepost.EndReleased
}

func waitsFor(t *testing.T, client *fencepost.Client, name string, count int) {
	t.Helper()
	eventually(t, "the requests wait for "+name, func() bool {
		info, err := client.Get(testContext(t), name)
		must(t, err)
		return info.Waiters == count
	})
}

// outcome is the result of a call.
type outcome struct {
	set *fencepost.LockSet
	err error
}

// acquireAll acquires in the background.
func acquireAll(
	ctx context.Context, client *fencepost.Client, names []string, options ...fencepost.AcquireOption,
) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		set, err := client.AcquireAll(ctx, names, options...)
		done <- outcome{set, err}
	}()
	return done
}

func TestLocksAreAcquiredInTheOrderOfTheirBytes(t *testing.T) {
	server := fenceposttest.Start(t)
	client, ctx := newClient(t, server.Address), testContext(t)
	watch, err := client.Watch(ctx, "")
	must(t, err)
	defer watch.Close()
	names := []string{"\U00010000", "b", "\uff5e", "a", "b"}
	set, err := client.AcquireAll(ctx, names, fencepost.WithTTL(time.Second))
	must(t, err)
	sorted := []string{"a", "b", "\uff5e", "\U00010000"}
	if !slices.Equal(set.Names(), sorted) || !set.Valid() || set.Remaining() <= 0 || set.Err() != nil {
		t.Fatalf("got %v, valid %v for %v, %v", set.Names(), set.Valid(), set.Remaining(), set.Err())
	}
	for name, lock := range set.All() {
		info, err := client.Get(ctx, name)
		must(t, err)
		if info.NewestToken != lock.Token() || set.Token(name) != lock.Token() || set.Lock(name) != lock {
			t.Fatalf("%s has token %d, and the set %d", name, info.NewestToken, set.Token(name))
		}
	}
	if set.Lock("c") != nil || set.Token("c") != 0 {
		t.Fatal("the set has no lock c")
	}
	time.Sleep(1500 * time.Millisecond)
	if !set.Valid() {
		t.Fatalf("all are renewed, but %v", set.Err())
	}
	must(t, set.Release(ctx))
	must(t, set.Release(ctx))
	if set.Valid() || set.Remaining() != 0 || !errors.Is(context.Cause(set.Context()), fencepost.ErrReleased) {
		t.Fatalf("valid %v, cause %v", set.Valid(), context.Cause(set.Context()))
	}
	reversed := slices.Clone(sorted)
	slices.Reverse(reversed)
	want := append(slices.Clone(sorted), reversed...)
	var seen []string
	for event, err := range watch.All() {
		must(t, err)
		seen = append(seen, event.Name)
		if len(seen) == len(want) {
			break
		}
	}
	if !slices.Equal(seen, want) {
		t.Fatalf("granted and released %q", seen)
	}
}

func TestNamesAreChecked(t *testing.T) {
	client, ctx := newClient(t, "127.0.0.1:1"), testContext(t)
	many := make([]string, 0, 65)
	for i := range 65 {
		many = append(many, strings.Repeat("x", i+1))
	}
	for _, names := range [][]string{nil, many, {"a", "\xff"}} {
		_, err := client.AcquireAll(ctx, names)
		_ = as[*fencepost.RefusedError](t, err)
		_, err = client.TryAll(ctx, names)
		_ = as[*fencepost.RefusedError](t, err)
	}
	_, err := client.AcquireAll(ctx, abc, fencepost.WithRequestID("a"))
	if refused := as[*fencepost.RefusedError](t, err); refused.Violations[0].Field != "request_id" {
		t.Fatal(err)
	}
}

func TestOneThatIsHeldGivesBackTheOthers(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	acquire(t, other, "c")
	_, err := client.AcquireAll(testContext(t), abc)
	failed := as[*fencepost.NotAllAcquiredError](t, err)
	if !errors.Is(err, fencepost.ErrContended) || failed.Name != "c" || failed.Count != 3 ||
		!slices.Equal(failed.GivenBack, []string{"b", "a"}) {
		t.Fatalf("got %+v", failed)
	}
	want := "fencepost: the 3 locks were not acquired, because of c: c is held by " + t.Name() +
		", 0 waiting; given back: b, a"
	if err.Error() != want {
		t.Fatal(err)
	}
	if !isFree(t, other, "a") || !isFree(t, other, "b") {
		t.Fatal("the others are held")
	}
}

func TestAllLocksShareOneWait(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	first := acquire(t, other, "a")
	acquire(t, other, "c")
	begun := time.Now()
	done := acquireAll(testContext(t), client, abc, fencepost.WithWait(time.Second))
	waitsFor(t, other, "a", 1)
	time.Sleep(500 * time.Millisecond)
	must(t, first.Release(testContext(t)))
	result := <-done
	_ = as[*fencepost.TimedOutError](t, result.err)
	if waited := time.Since(begun); waited < time.Second || waited > 20*time.Second {
		t.Fatalf("waited for %v", waited)
	}
	if !isFree(t, other, "a") || !isFree(t, other, "b") {
		t.Fatal("the others are held")
	}
}

func TestACancelledCallLeavesNothing(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	acquire(t, other, "c")
	ctx, cancel := context.WithCancel(testContext(t))
	done := acquireAll(ctx, client, abc, fencepost.WithWaitUntilDone())
	waitsFor(t, other, "c", 1)
	cancel()
	if result := <-done; !errors.Is(result.err, context.Canceled) || errors.Is(result.err, fencepost.ErrLost) {
		t.Fatal(result.err)
	}
	eventually(t, "the others are free", func() bool { return isFree(t, other, "a") && isFree(t, other, "b") })
	waitsFor(t, other, "c", 0)
}

func TestALossWhileLaterLocksAreWaitedForEndsTheCall(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	acquire(t, other, "c")
	done := acquireAll(testContext(t), client, abc, fencepost.WithWaitUntilDone())
	waitsFor(t, other, "c", 1)
	must(t, server.Lose("a"))
	result := <-done
	lost := as[*fencepost.LostError](t, result.err)
	failed := as[*fencepost.NotAllAcquiredError](t, result.err)
	if lost.Name != "a" || lost.Reason != fencepost.LossRevoked || failed.Name != "a" ||
		!slices.Equal(failed.GivenBack, []string{"b"}) {
		t.Fatal(result.err)
	}
	if !isFree(t, other, "b") {
		t.Fatal("b is held")
	}
	waitsFor(t, other, "c", 0)
}

func TestASetIsLostWithOneLock(t *testing.T) {
	server := fenceposttest.Start(t)
	client, ctx := newClient(t, server.Address), testContext(t)
	var held *fencepost.LockSet
	failed := errors.New("work")
	err := client.DoAll(ctx, abc, func(ctx context.Context, locks *fencepost.LockSet) error {
		held = locks
		must(t, server.Lose("b"))
		<-ctx.Done()
		if locks.Valid() || locks.Remaining() != 0 || !locks.Lock("a").Valid() {
			t.Error("the others are held until the work has stopped")
		}
		if cause := context.Cause(ctx); as[*fencepost.LostError](t, cause).Name != "b" {
			t.Error(cause)
		}
		return failed
	})
	if lost := as[*fencepost.LostError](t, err); lost.Name != "b" || !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if lost := as[*fencepost.LostError](t, held.Release(ctx)); lost.Name != "b" {
		t.Fatal(lost)
	}
	if !isFree(t, client, "a") || !isFree(t, client, "c") {
		t.Fatal("the others are held")
	}
	must(t, client.DoAll(ctx, abc, func(context.Context, *fencepost.LockSet) error { return nil }))
}

func TestTriesHoldNothingWhileTheyWait(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	held, ctx := acquire(t, other, "c"), testContext(t)
	for _, options := range [][]fencepost.AcquireOption{nil, {fencepost.WithWait(300 * time.Millisecond)}} {
		if _, err := client.TryAll(ctx, abc, options...); !errors.Is(err, fencepost.ErrContended) {
			t.Fatal(err)
		}
	}
	done := make(chan outcome, 1)
	go func() {
		set, err := client.TryAll(ctx, abc, fencepost.WithWait(patience))
		done <- outcome{set, err}
	}()
	for range 3 {
		must(t, acquire(t, other, "a").Release(ctx))
	}
	waitsFor(t, other, "c", 0)
	must(t, held.Release(ctx))
	result := <-done
	must(t, result.err)
	must(t, result.set.Release(ctx))
}

func TestACallThatIsCancelledBetweenTriesSaysSo(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	acquire(t, other, "c")
	reason := errors.New("enough")
	// At any moment: mostly in a pause, since a try is short.
	for range 5 {
		ctx, cancel := context.WithCancelCause(testContext(t))
		time.AfterFunc(200*time.Millisecond, func() { cancel(reason) })
		_, err := client.TryAll(ctx, abc, fencepost.WithWaitUntilDone())
		_ = as[*fencepost.NotAllAcquiredError](t, err)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
			t.Fatal(err)
		}
	}
}

func TestASetThatIsForgottenIsReleased(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	set, err := client.AcquireAll(testContext(t), abc)
	must(t, err)
	runtime.KeepAlive(set)
	eventually(t, "they are released", func() bool {
		runtime.GC()
		return isFree(t, client, "a") && isFree(t, client, "b") && isFree(t, client, "c")
	})
}

func TestAClosedClientEndsTheCall(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	acquire(t, other, "c")
	done := acquireAll(testContext(t), client, abc, fencepost.WithWaitUntilDone())
	waitsFor(t, other, "c", 1)
	must(t, client.Close(testContext(t)))
	if result := <-done; !errors.Is(result.err, fencepost.ErrClosed) {
		t.Fatal(result.err)
	}
	if !isFree(t, other, "a") || !isFree(t, other, "b") {
		t.Fatal("the others are held")
	}
}
