package fenceposttest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// patience bounds all waits of the tests: far more than any of them takes.
const patience = 60 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	server, err := fenceposttest.LaunchFake() // StartFake in a test
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	client, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = client.Close(ctx) }()
	lock, err := client.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Lose("orders/42"); err != nil {
		log.Fatal(err)
	}
	<-lock.Context().Done()
	fmt.Println(context.Cause(lock.Context()))
	// Output: fencepost: orders/42 (token 1) is lost: the lease was revoked
}

func start(t *testing.T) (*fenceposttest.FakeServer, *fencepost.Client, context.Context) {
	t.Helper()
	server := fenceposttest.StartFake(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return server, newClient(t, server), ctx
}

func newClient(t *testing.T, server *fenceposttest.FakeServer) *fencepost.Client {
	t.Helper()
	client, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}, Holder: t.Name()})
	must(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// heldFor waits until a lock has been held for that long.
func heldFor(t *testing.T, ctx context.Context, client *fencepost.Client, name string, long time.Duration) {
	t.Helper()
	eventually(t, "it is held for that long", func() bool {
		info, err := client.Get(ctx, name)
		must(t, err)
		return len(info.Holders) == 1 && info.Holders[0].HeldSince > long
	})
}

// waiters waits until so many requests wait for a lock.
func waiters(t *testing.T, ctx context.Context, client *fencepost.Client, name string, count int) {
	t.Helper()
	eventually(t, fmt.Sprint(count, " wait"), func() bool {
		info, err := client.Get(ctx, name)
		must(t, err)
		return info.Waiters == count
	})
}

func lost(t *testing.T, lock *fencepost.Lock) *fencepost.LostError {
	t.Helper()
	select {
	case <-lock.Context().Done():
	case <-time.After(patience):
		t.Fatal("the lock is not lost")
	}
	var found *fencepost.LostError
	if !errors.As(context.Cause(lock.Context()), &found) || lock.Valid() {
		t.Fatalf("got %v, valid %v", context.Cause(lock.Context()), lock.Valid())
	}
	return found
}

// acquire waits for a lock, and keeps it from being forgotten until the end of the test.
func acquire(t *testing.T, ctx context.Context, client *fencepost.Client, name string) *fencepost.Lock {
	t.Helper()
	lock, err := client.Acquire(ctx, name, fencepost.WithWaitUntilDone())
	must(t, err)
	t.Cleanup(func() { runtime.KeepAlive(lock) })
	return lock
}

func TestTheFakeGrantsInOrderAndRenews(t *testing.T) {
	_, client, ctx := start(t)
	lock, err := client.Acquire(ctx, "orders/42", fencepost.WithTTL(1500*time.Millisecond),
		fencepost.WithMetadata(map[string]string{"job": "7"}))
	must(t, err)
	_, err = client.TryAcquire(ctx, "orders/42")
	var contended *fencepost.ContendedError
	if !errors.As(err, &contended) || contended.Waiters != 0 || contended.Holders[0].Holder != t.Name() ||
		contended.Holders[0].Token != lock.Token() || contended.Holders[0].Metadata["job"] != "7" {
		t.Fatalf("got %v", err)
	}
	_, err = client.Acquire(ctx, "orders/42", fencepost.WithWait(50*time.Millisecond))
	if !errors.Is(err, fencepost.ErrTimedOut) {
		t.Fatalf("got %v", err)
	}
	// Grants on the same session do not delay the beats that renew.
	for held := false; !held; {
		must(t, client.Do(ctx, "other", func(context.Context, uint64) error { return nil }))
		info, err := client.Get(ctx, "orders/42")
		must(t, err)
		held = len(info.Holders) == 0 || info.Holders[0].HeldSince > 2*time.Second
	}
	if !lock.Valid() {
		t.Fatal(lock.Err())
	}

	served, ended := make(chan int, 3), make(chan error, 3)
	for i := range 3 {
		go func() {
			ended <- client.Do(ctx, "orders/42", func(context.Context, uint64) error {
				served <- i
				return nil
			}, fencepost.WithWaitUntilDone())
		}()
		waiters(t, ctx, client, "orders/42", i+1)
	}
	must(t, lock.Release(ctx))
	for i := range 3 {
		must(t, <-ended)
		if got := <-served; got != i {
			t.Fatalf("served %d, not %d", got, i)
		}
	}
	next, err := client.Acquire(ctx, "orders/42", fencepost.WithMinToken(1_000_000))
	must(t, err)
	if next.Token() != 1_000_000 || next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("token %d after %v", next.Token(), next.PreviousEnd())
	}
}

func TestTheFakeAnswersQuestions(t *testing.T) {
	_, client, ctx := start(t)
	watcher, err := client.Watch(ctx, "orders/")
	must(t, err)
	defer watcher.Close()
	first, err := client.Acquire(ctx, "orders/42")
	must(t, err)
	must(t, first.Release(ctx))
	lock, err := client.Acquire(ctx, "orders/42")
	must(t, err)
	acquire(t, ctx, client, "other")
	for _, want := range []fencepost.Event{
		{Kind: fencepost.EventGranted, Token: first.Token(), GrantID: first.GrantID()},
		{Kind: fencepost.EventReleased, Token: first.Token(), GrantID: first.GrantID()},
		{Kind: fencepost.EventGranted, Token: lock.Token(), GrantID: lock.GrantID()},
	} {
		want.Name, want.Holder = "orders/42", t.Name()
		if event, err := watcher.Next(); err != nil || event != want {
			t.Fatalf("got %+v, %v", event, err)
		}
	}
	for info, err := range client.List(ctx, "orders/") {
		must(t, err)
		if info.Name != "orders/42" || info.NewestToken != lock.Token() {
			t.Fatalf("got %+v", info)
		}
	}
	for token, want := range map[uint64]fencepost.TokenStatus{
		first.Token(): fencepost.TokenStale, lock.Token(): fencepost.TokenCurrent, 99: fencepost.TokenUnknown,
	} {
		if check, err := client.CheckToken(ctx, "orders/42", token); err != nil || check.Status != want {
			t.Fatalf("token %d: got %+v, %v", token, check, err)
		}
	}
	must(t, lock.Release(ctx))
	check, err := client.CheckToken(ctx, "orders/42", lock.Token())
	if err != nil || check.Status != fencepost.TokenEnded {
		t.Fatalf("got %+v, %v", check, err)
	}
}

func TestALossIsReported(t *testing.T) {
	server, client, ctx := start(t)
	lock, err := client.Acquire(ctx, "orders/42")
	must(t, err)
	next := make(chan *fencepost.Lock, 1)
	go func() {
		granted, err := client.Acquire(ctx, "orders/42", fencepost.WithWaitUntilDone())
		if err != nil {
			t.Error(err)
		}
		next <- granted
	}()
	waiters(t, ctx, client, "orders/42", 1)
	must(t, server.Lose("orders/42"))
	granted := <-next
	if got := lost(t, lock); got.Reason != fencepost.LossRevoked || got.SuccessorToken != granted.Token() {
		t.Fatalf("got %+v", got)
	}
	if granted.PreviousEnd() != fencepost.EndRevoked {
		t.Fatalf("the previous end is %v", granted.PreviousEnd())
	}
	if err := server.Lose("other"); err == nil || err.Error() != `nobody holds the lock "other"` {
		t.Fatalf("got %v", err)
	}
}

func TestADroppedReplyIsAskedForAgain(t *testing.T) {
	server, client, ctx := start(t)
	const ttl = 2500 * time.Millisecond
	kept, err := client.Acquire(ctx, "kept", fencepost.WithTTL(ttl))
	must(t, err)
	server.DropReply()
	lock, err := client.Acquire(ctx, "orders/42")
	must(t, err)
	if lock.Token() != kept.Token()+1 {
		t.Fatalf("token %d after %d: the repetition was granted anew", lock.Token(), kept.Token())
	}
	server.DropReply()
	must(t, lock.Release(ctx))
	heldFor(t, ctx, client, "kept", ttl*5/4)
	if !kept.Valid() {
		t.Fatalf("it has not moved to the next session: %v", kept.Err())
	}
}

func TestAWaitOutlivesItsConnection(t *testing.T) {
	server, client, ctx := start(t)
	other := newClient(t, server)
	lock, err := client.Acquire(ctx, "orders/42")
	must(t, err)
	order, positions := make(chan string, 2), make(chan int, 10)
	wait := func(who *fencepost.Client, name string, options ...fencepost.AcquireOption) {
		if err := who.Do(ctx, "orders/42", func(context.Context, uint64) error {
			order <- name
			return nil
		}, append(options, fencepost.WithWaitUntilDone())...); err != nil {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		wait(other, "first", fencepost.WithOnQueuePosition(func(ahead int) { positions <- ahead }))
	})
	waiters(t, ctx, client, "orders/42", 1)
	all.Go(func() { wait(client, "second") })
	waiters(t, ctx, client, "orders/42", 2)
	// The connection of the first ends, and its request comes again.
	server.DropReply()
	if _, err := other.TryAcquire(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ahead := <-positions; ahead != 0 {
			t.Fatalf("%d are ahead of the first", ahead)
		}
	}
	must(t, lock.Release(ctx))
	if first, second := <-order, <-order; first != "first" || second != "second" {
		t.Fatalf("served %s, then %s", first, second)
	}
}

func TestAPauseLosesLocks(t *testing.T) {
	server, client, ctx := start(t)
	lock, err := client.Acquire(ctx, "orders/42", fencepost.WithTTL(400*time.Millisecond))
	must(t, err)
	server.Pause()
	if got := lost(t, lock); got.Reason != fencepost.LossSilence {
		t.Fatalf("got %+v", got)
	}
	server.Resume()
	next := acquire(t, ctx, client, "orders/42")
	if next.Token() <= lock.Token() || next.PreviousEnd() != fencepost.EndExpired {
		t.Fatalf("token %d after %v", next.Token(), next.PreviousEnd())
	}
}

func TestACancelledWaitLeavesTheQueueOfTheFake(t *testing.T) {
	_, client, ctx := start(t)
	acquire(t, ctx, client, "orders/42")
	waiting, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := client.Acquire(waiting, "orders/42", fencepost.WithWaitUntilDone())
		ended <- err
	}()
	waiters(t, ctx, client, "orders/42", 1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	waiters(t, ctx, client, "orders/42", 0)
}

// Nothing is left of a fake that is stopped while it is paused and calls wait.
func TestTheFakeStopsWhateverGoesOn(t *testing.T) {
	server, client, ctx := start(t)
	acquire(t, ctx, client, "orders/42")
	watcher, err := client.Watch(ctx, "")
	must(t, err)
	defer watcher.Close()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() {
		_, err := client.Acquire(waiting, "orders/42", fencepost.WithWaitUntilDone())
		ended <- err
	}()
	waiters(t, ctx, client, "orders/42", 1)
	server.Pause()
	go func() {
		_, err := client.Get(waiting, "orders/42")
		ended <- err
	}()
	server.Stop()
	server.Stop()
	cancel()
	for range 2 {
		if err := <-ended; err == nil {
			t.Fatal("answered by nobody")
		}
	}
	// Nobody answers the release either.
	short, cancelClose := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancelClose()
	if err := client.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}
