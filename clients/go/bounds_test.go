//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// What a caller does not name is decided by the server: its own bounds are no obstacle.
func TestTheBoundsOfTheServerDecide(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t, "--ttl-max", "10s", "--wait-max", "0s")
	client := newClient(t, server.Address)
	lock, err := client.Acquire(testContext(t), "orders/42")
	must(t, err)
	info, err := client.Get(testContext(t), "orders/42")
	must(t, err)
	if ttl := info.Holders[0].TTL; ttl != 10*time.Second || lock.Remaining() > ttl {
		t.Fatalf("the TTL is %v, %v remain", ttl, lock.Remaining())
	}
	if _, err := client.Acquire(testContext(t), "orders/42"); !errors.Is(err, fencepost.ErrContended) {
		t.Fatalf("got %v", err)
	}
	never := func(context.Context, uint64) error { panic("called without the lock") }
	if err := client.Do(testContext(t), "orders/42", never); !errors.Is(err, fencepost.ErrContended) {
		t.Fatalf("got %v", err)
	}
	must(t, lock.Release(testContext(t)))
	must(t, client.Do(testContext(t), "orders/42", func(context.Context, uint64) error { return nil }))
}

// The wait until the context is done is longer than the server allows: it is asked for in parts that are allowed.
func TestAWaitUntilTheContextIsDoneIsAsLongAsTheServerAllows(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t, "--wait-max", "1s")
	holder, waiter := newClient(t, server.Address), newClient(t, server.Address)
	held := acquire(t, holder, "orders/42")
	time.AfterFunc(3*time.Second, func() { _ = held.Release(context.Background()) })
	begun := time.Now()
	next, err := waiter.Acquire(context.Background(), "orders/42", fencepost.WithWaitUntilDone())
	must(t, err)
	if waited := time.Since(begun); waited < 2*time.Second || next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("waited %v, the previous end is %v", waited, next.PreviousEnd())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err = holder.Acquire(ctx, "orders/42", fencepost.WithWaitUntilDone())
	if !errors.Is(err, fencepost.ErrTimedOut) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	// A wait that the caller names is not shortened behind its back.
	_, err = waiter.Acquire(testContext(t), "orders/43", fencepost.WithWait(time.Minute))
	if refused := as[*fencepost.RefusedError](t, err); refused.Violations[0].Field != "wait_timeout" {
		t.Fatalf("got %v", err)
	}
	must(t, next.Release(testContext(t)))
}

func TestAnErrorOfAnArgumentNamesIt(t *testing.T) {
	t.Parallel()
	client := newClient(t, fenceposttest.Start(t).Address)
	for want, bad := range map[string]fencepost.AcquireOption{
		"fencepost: wait_timeout must be 0s to 1h; it is -1s (INVALID_FIELD)":    fencepost.WithWait(-time.Second),
		"fencepost: ttl must be 1s to 24h; it is 1ms (INVALID_FIELD)":            fencepost.WithTTL(time.Millisecond),
		"fencepost: ttl must be 1s to 24h; it is 0s (INVALID_FIELD)":             fencepost.WithTTL(0),
		"fencepost: max_hold must be at least the TTL, at most 168h; it is 0s":   fencepost.WithMaxHold(0),
		"fencepost: max_hold must be at least the TTL, at most 168h; it is -1s":  fencepost.WithMaxHold(-time.Second),
		"fencepost: min_hold must be 0s to 24h; it is -1":                        fencepost.WithMinHold(-time.Second),
		"fencepost: min_hold must be 0s to 24h; it is 25h":                       fencepost.WithMinHold(25 * time.Hour),
		"fencepost: lock_delay must be 0s to 1m; it is 1m 1s":                    fencepost.WithLockDelay(61 * time.Second),
		"fencepost: wait_timeout must be 0s to 1h; it is 1h 59m ":                fencepost.WithWait(2 * time.Hour),
		"fencepost: holder must be valid UTF-8; it is \"\\xff\" (INVALID_FIELD)": fencepost.WithHolder("\xff"),
	} {
		_, err := client.Acquire(context.Background(), "orders/42", bad)
		if refused := as[*fencepost.RefusedError](t, err); refused.Code != codes.InvalidArgument ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := client.Do(testContext(t), "orders/42", nil); err == nil ||
		err.Error() != "fencepost: work must be a function; it is nil (INVALID_FIELD)" {
		t.Errorf("got %v", err)
	}
}

func TestTheVersionIsThatOfTheServer(t *testing.T) {
	manifest, err := os.ReadFile("../../Cargo.toml")
	must(t, err)
	if found := regexp.MustCompile(`(?m)^version = "(.*)"$`).FindSubmatch(manifest); string(found[1]) != fencepost.Version {
		t.Fatalf("got %s, want %s", fencepost.Version, found[1])
	}
}
