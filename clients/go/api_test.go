//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

func TestDoRunsWorkUnderTheLock(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	failed := errors.New("the work failed")
	err := client.Do(testContext(t), "orders/42", func(ctx context.Context, token uint64) error {
		info, err := other.Get(ctx, "orders/42")
		must(t, err)
		if info.Holders[0].Token != token {
			t.Errorf("token %d, got %+v", token, info)
		}
		return failed
	})
	if !errors.Is(err, failed) || errors.Is(err, fencepost.ErrLost) {
		t.Fatalf("got %v", err)
	}
	if next := acquire(t, other, "orders/42"); next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
	never := func(context.Context, uint64) error { panic("called without the lock") }
	if err := client.Do(testContext(t), "orders/42", never, fencepost.WithWait(0)); !errors.Is(err, fencepost.ErrContended) {
		t.Fatalf("got %v", err)
	}
}

func TestDoStopsWorkWhenTheLockIsLost(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	err := client.Do(testContext(t), "orders/42", func(ctx context.Context, token uint64) error {
		output, err := server.Command("force-release", "--token", fmt.Sprint(token), "--reason", "test", "orders/42")
		if err != nil {
			t.Error(output)
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), fencepost.ErrLost) {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		return ctx.Err()
	})
	if as[*fencepost.LostError](t, err).Reason != fencepost.LossRevoked || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestDoReleasesWhenWorkPanics(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = client.Do(testContext(t), "orders/42", func(context.Context, uint64) error { panic("oops") })
	}()
	if next := acquire(t, client, "orders/42"); next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
}

func TestARefusalNamesTheField(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	held := acquire(t, client, "orders/41")
	for field, bad := range map[string][]fencepost.AcquireOption{
		"ttl":        {fencepost.WithTTL(time.Millisecond)},
		"holder":     {fencepost.WithHolder("\xff")},
		"request_id": {fencepost.WithRequestID("7")},
		"metadata":   {fencepost.WithMetadata(map[string]string{"key": string(make([]byte, 5000))})},
	} {
		_, err := client.Acquire(testContext(t), "orders/42", bad...)
		refused := as[*fencepost.RefusedError](t, err)
		if refused.Code != codes.InvalidArgument || refused.Reason != "INVALID_FIELD" || len(refused.Violations) != 1 ||
			refused.Violations[0].Field != field || status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %+v", field, refused)
		}
	}
	if _, err := client.Acquire(testContext(t), string(make([]byte, 70_000))); !errors.Is(err, fencepost.ErrRefused) {
		t.Errorf("got %v", err)
	}
	// None of them ended the session.
	must(t, held.Release(testContext(t)))
}

func TestGetListAndCheckToken(t *testing.T) {
	server := fenceposttest.Start(t)
	client, ctx := newClient(t, server.Address), testContext(t)
	old := acquire(t, client, "orders/0")
	must(t, old.Release(ctx))
	held := acquire(t, client, "orders/0")
	want := []string{"orders/0"}
	for i := 1; i < 5; i++ {
		want = append(want, acquire(t, client, fmt.Sprint("orders/", i)).Name())
	}
	acquire(t, client, "other")
	found := map[string]fencepost.LockInfo{}
	for info, err := range client.List(ctx, "orders/") {
		must(t, err)
		found[info.Name] = info
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	info, err := client.Get(ctx, "orders/0")
	must(t, err)
	if info.Holders[0].Token != held.Token() || info.NewestToken != held.Token() ||
		info.PreviousEnd != fencepost.EndReleased {
		t.Fatalf("got %+v", info)
	}
	for token, want := range map[uint64]fencepost.TokenStatus{
		held.Token(): fencepost.TokenCurrent, old.Token(): fencepost.TokenStale, held.Token() + 1: fencepost.TokenUnknown,
	} {
		check, err := client.CheckToken(ctx, "orders/0", token)
		must(t, err)
		if check.Status != want || check.NewestToken != held.Token() {
			t.Errorf("token %d: got %+v, want %v", token, check, want)
		}
	}
	must(t, held.Release(ctx))
	check, err := client.CheckToken(ctx, "orders/0", held.Token())
	if err != nil || check.Status != fencepost.TokenEnded {
		t.Fatalf("got %+v, %v", check, err)
	}
}

func TestWatchReportsEvents(t *testing.T) {
	server := fenceposttest.Start(t)
	through := startProxy(t, server.Address)
	client, actor := newClient(t, through.address), newClient(t, server.Address)
	watcher, err := client.Watch(testContext(t), "orders/")
	must(t, err)
	defer watcher.Close()
	lock := acquire(t, actor, "orders/42")
	acquire(t, actor, "other")
	must(t, lock.Release(testContext(t)))
	for _, kind := range []fencepost.EventKind{fencepost.EventGranted, fencepost.EventReleased} {
		event, err := watcher.Next()
		must(t, err)
		if event.Kind != kind || event.Name != "orders/42" || event.Token != lock.Token() || event.Holder != t.Name() {
			t.Fatalf("got %+v", event)
		}
	}
	// The watcher connects again, and reports the gap.
	through.disconnect()
	if event, err := watcher.Next(); err != nil || event.Kind != fencepost.EventMissed {
		t.Fatalf("got %+v, %v", event, err)
	}
	acquire(t, actor, "orders/43")
	for event, err := range watcher.All() {
		must(t, err)
		if event.Kind != fencepost.EventGranted {
			t.Fatalf("got %+v", event)
		}
		break
	}
	watcher.Close()
	if _, err := watcher.Next(); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}
