//go:build unix

package fenceposttest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// patience bounds all waits of the tests: far more than any of them takes.
const patience = 60 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, server *fenceposttest.Server) (*fencepost.Client, context.Context) {
	t.Helper()
	client, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}})
	must(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return client, ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lost waits for the loss of a lock.
func lost(t *testing.T, ctx context.Context, lock *fencepost.Lock) *fencepost.LostError {
	t.Helper()
	select {
	case <-lock.Context().Done():
	case <-ctx.Done():
		t.Fatal("the lock is not lost")
	}
	var found *fencepost.LostError
	if !errors.As(context.Cause(lock.Context()), &found) || lock.Valid() {
		t.Fatalf("got %v, valid %v", context.Cause(lock.Context()), lock.Valid())
	}
	return found
}

func TestLoseRevokesALock(t *testing.T) {
	server := fenceposttest.Start(t)
	client, ctx := newClient(t, server)
	const name = "orders/42 für Jürgen"
	lock, err := client.Acquire(ctx, name)
	must(t, err)
	queued, next := make(chan struct{}), make(chan *fencepost.Lock, 1)
	go func() {
		granted, err := client.Acquire(ctx, name, fencepost.WithWaitUntilDone(),
			fencepost.WithOnQueuePosition(func(int) { close(queued) }))
		if err != nil {
			t.Error(err)
		}
		next <- granted
	}()
	<-queued
	must(t, server.Lose(name))
	granted := <-next
	// The next holder is named if it had the lock when the loss was reported.
	got := lost(t, ctx, lock)
	if got.Reason != fencepost.LossRevoked || got.SuccessorToken != 0 && got.SuccessorToken != granted.Token() {
		t.Fatalf("got %+v", got)
	}
	if granted.PreviousEnd() != fencepost.EndRevoked || !granted.Valid() {
		t.Fatalf("the previous end is %v, valid %v", granted.PreviousEnd(), granted.Valid())
	}
}

func TestLoseSaysWhyItDoesNothing(t *testing.T) {
	server := fenceposttest.Start(t)
	for name, want := range map[string]string{"orders/42": `nobody holds lock "orders/42"`, "a\nb": "control"} {
		if err := server.Lose(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", name, err)
		}
	}
	server.Kill()
	if err := server.Lose("orders/42"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

// What was done is not done again when it is asked for again, and other locks move to the next connection.
func TestADroppedReplyIsAskedForAgain(t *testing.T) {
	server := fenceposttest.Start(t)
	client, ctx := newClient(t, server)
	const ttl = 2500 * time.Millisecond
	kept, err := client.Acquire(ctx, "kept", fencepost.WithTTL(ttl))
	must(t, err)
	must(t, server.DropReply())
	lock, err := client.Acquire(ctx, "orders/42")
	must(t, err)
	must(t, server.DropReply())
	must(t, lock.Release(ctx))
	next, err := client.TryAcquire(ctx, "orders/42")
	must(t, err)
	if next.Token() != lock.Token()+1 || next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("token %d after %d, which was %v", next.Token(), lock.Token(), next.PreviousEnd())
	}
	// The log comes by a pipe, perhaps later than the replies.
	for strings.Count(server.Log(), "a test dropped a reply") != 2 {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("other than two connections were cut: %s", server.Log())
		}
	}
	select {
	case <-time.After(ttl):
	case <-kept.Context().Done():
		t.Fatalf("it has not moved to the next connection: %v", kept.Err())
	}
}

func TestAPauseLosesLocks(t *testing.T) {
	server := fenceposttest.Start(t, "--ttl-min", "50ms")
	client, ctx := newClient(t, server)
	lock, err := client.Acquire(ctx, "orders/42", fencepost.WithTTL(400*time.Millisecond))
	must(t, err)
	must(t, server.Pause())
	must(t, server.Pause())
	if got := lost(t, ctx, lock); got.Reason != fencepost.LossSilence {
		t.Fatalf("got %+v", got)
	}
	must(t, server.Resume())
	must(t, server.Resume())
	next, err := client.Acquire(ctx, "orders/42", fencepost.WithWaitUntilDone())
	must(t, err)
	if next.Token() <= lock.Token() || next.PreviousEnd() != fencepost.EndExpired {
		t.Fatalf("token %d after %v", next.Token(), next.PreviousEnd())
	}
}

func TestAServerThatIsPausedStops(t *testing.T) {
	server := fenceposttest.Start(t)
	must(t, server.Pause())
	server.Stop()
	server.Stop()
	if err := server.Pause(); err == nil {
		t.Fatal("paused after its end")
	}
}

// The program refuses the port for faults beside another store.
func TestAServerWithAnotherStoreTakesNoOrders(t *testing.T) {
	const redis = "redis://127.0.0.1:1" // where nothing listens
	for _, arguments := range [][]string{{"--store", redis}, {"--store=" + redis}} {
		server := fenceposttest.Start(t, arguments...)
		for _, err := range []error{server.Lose("orders/42"), server.DropReply()} {
			if err == nil || !strings.Contains(err.Error(), "only a server with the store memory: takes orders") {
				t.Errorf("got %v", err)
			}
		}
	}
	for _, arguments := range [][]string{{"--store", "memory:"}, {"--store=memory:"}} {
		must(t, fenceposttest.Start(t, arguments...).DropReply())
	}
}

func TestAServerThatDoesNotStartShowsItsLog(t *testing.T) {
	_, err := fenceposttest.Launch("--ttl-min", "soon")
	if err == nil || !strings.Contains(err.Error(), "the server ended: ") || !strings.Contains(err.Error(), "ttl-min") {
		t.Fatalf("got %v", err)
	}
}
