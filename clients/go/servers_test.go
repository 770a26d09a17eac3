//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// outlive waits until a lock has been held for two of its TTLs, and checks that it is valid all the time.
func outlive(t *testing.T, ttl time.Duration, locks ...*fencepost.Lock) {
	t.Helper()
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, lock := range locks {
			if !lock.Valid() {
				t.Fatalf("lost: %v", lock.Err())
			}
		}
	}
}

// within waits for something that must happen.
func within(t *testing.T, happens <-chan struct{}) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(patience):
		t.Fatal("it does not happen")
	}
}

// lost waits for the loss of a lock.
func lost(t *testing.T, lock *fencepost.Lock) *fencepost.LostError {
	t.Helper()
	select {
	case <-lock.Context().Done():
	case <-time.After(patience):
		t.Fatal("the lock is not lost")
	}
	if lock.Valid() || lock.Remaining() != 0 {
		t.Fatal("a lost lock is valid")
	}
	return as[*fencepost.LostError](t, context.Cause(lock.Context()))
}

func TestALockIsKeptPastItsTTL(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
}

func TestAnotherServerTakesOverWhenTheFirstIsKilled(t *testing.T) {
	t.Parallel()
	redis, _ := startRedis(t)
	first, second := fenceposttest.Start(t, "--store", redis), fenceposttest.Start(t, "--store", redis)
	client := newClient(t, first.Address, second.Address)
	// Longer than the locks that the first server leads have no leader.
	const ttl = 6 * time.Second
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl))
	waiting := make(chan error, 1)
	other := newClient(t, first.Address, second.Address)
	queued := make(chan struct{})
	go func() {
		next, err := other.Acquire(testContext(t), "orders/42", fencepost.WithWait(patience),
			fencepost.WithOnQueuePosition(once(queued)))
		if err == nil && next.Token() <= lock.Token() {
			err = fmt.Errorf("token %d after %d", next.Token(), lock.Token())
		}
		waiting <- err
	}()
	<-queued
	first.Kill()
	outlive(t, ttl, lock)
	must(t, lock.Release(testContext(t)))
	must(t, <-waiting)
}

func TestADrainMovesLocksToAnotherServer(t *testing.T) {
	t.Parallel()
	redis, _ := startRedis(t)
	first, second := fenceposttest.Start(t, "--store", redis), fenceposttest.Start(t, "--store", redis)
	client := newClient(t, first.Address, second.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	first.Signal(syscall.SIGTERM)
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
}

func TestTheOnlyServerServesUntilTheGraceIsOver(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t, "--drain-timeout", "10s")
	client := newClient(t, server.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	server.Signal(syscall.SIGTERM)
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
}

func TestALockIsLostWhenAllServersAreGone(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	atRisk := make(chan struct{}, 1)
	lock := acquire(t, newClient(t, server.Address), "orders/42", fencepost.WithTTL(time.Second),
		fencepost.WithOnAtRisk(func() { atRisk <- struct{}{} }))
	server.Kill()
	within(t, atRisk)
	if got := lost(t, lock); got.Reason != fencepost.LossSilence || got.Token != lock.Token() {
		t.Fatalf("got %+v", got)
	}
}

func TestARevokedLockIsLost(t *testing.T) {
	server := fenceposttest.Start(t)
	lock := acquire(t, newClient(t, server.Address), "orders/42")
	output, err := server.Command("force-release", "--token", fmt.Sprint(lock.Token()), "--reason", "test", "orders/42")
	if err != nil {
		t.Fatal(output)
	}
	if got := lost(t, lock); got.Reason != fencepost.LossRevoked || got.SuccessorToken != 0 {
		t.Fatalf("got %+v", got)
	}
	if err := lock.Release(testContext(t)); as[*fencepost.LostError](t, err).Reason != fencepost.LossRevoked {
		t.Fatal(err)
	}
}

// While Redis is away, nothing can be renewed. A lock that is at risk is kept if Redis is back in time.
func TestALockIsKeptWhenRedisPauses(t *testing.T) {
	t.Parallel()
	redis, process := startRedis(t)
	server := fenceposttest.Start(t, "--store", redis)
	atRisk := make(chan struct{}, 1)
	const ttl = 6 * time.Second
	lock := acquire(t, newClient(t, server.Address), "orders/42", fencepost.WithTTL(ttl),
		fencepost.WithOnAtRisk(func() { atRisk <- struct{}{} }))
	must(t, process.Signal(syscall.SIGSTOP))
	within(t, atRisk)
	if !lock.Valid() {
		t.Fatalf("at risk is not lost: %v", lock.Err())
	}
	must(t, process.Signal(syscall.SIGCONT))
	eventually(t, "the lock is renewed", func() bool {
		if !lock.Valid() {
			t.Fatalf("lost: %v", lock.Err())
		}
		return lock.Remaining() > ttl*2/3
	})
	must(t, lock.Release(testContext(t)))
}

// A lock that is over by the local clock is not waited for: the server is still silent when Release returns. Close waits.
func TestNobodyWaitsForTheReleaseOfALostLock(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	through := startProxy(t, server.Address)
	client := newClient(t, through.address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(time.Second))
	through.setSilent(true)
	if got := lost(t, lock); got.Reason != fencepost.LossSilence {
		t.Fatalf("got %+v", got)
	}
	if got := as[*fencepost.LostError](t, lock.Release(testContext(t))); got.Reason != fencepost.LossSilence {
		t.Fatalf("got %+v", got)
	}
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := client.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Close does not wait for the release: %v", err)
	}
}

// The server does not answer, but it reads: the release arrives although nobody waits for it.
func TestALostLockIsReleasedInTheBackground(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	mute := startFront(t, server.Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		if isGrant(response) {
			return response
		}
		return nil
	})
	lock := acquire(t, newClient(t, mute.address), "orders/42", fencepost.WithTTL(time.Second))
	if loss := lost(t, lock); !errors.Is(lock.Release(testContext(t)), loss) {
		t.Fatal("the release does not say that the lock was lost")
	}
	eventually(t, "the release is sent", func() bool {
		return len(mute.sent(func(request *pb.SessionRequest) bool { return request.GetRelease() != nil })) > 0
	})
}

// A watch that is interrupted says so, also if nothing else has noticed that its server is gone.
func TestAWatchWhoseServerIsKilledReportsMissedEvents(t *testing.T) {
	t.Parallel()
	redis, _ := startRedis(t)
	first, second := fenceposttest.Start(t, "--store", redis), fenceposttest.Start(t, "--store", redis)
	other := newClient(t, second.Address)
	// Until its subscription to Redis is there, a server refuses watches, and the next one would be asked.
	early, err := newClient(t, first.Address).Watch(testContext(t), "orders/")
	must(t, err)
	early.Close()
	watcher, err := newClient(t, first.Address, second.Address).Watch(testContext(t), "orders/")
	must(t, err)
	defer watcher.Close()
	lock := acquire(t, other, "orders/42")
	for told := false; !told; {
		event, err := watcher.Next()
		must(t, err)
		if event.Kind == fencepost.EventMissed {
			// The second server got its share of the locks, and the grant may be among what was missed.
			must(t, lock.Release(testContext(t)))
			lock = acquire(t, other, "orders/42")
		}
		told = event.Kind == fencepost.EventGranted && event.Token == lock.Token()
	}
	first.Kill()
	if event, err := watcher.Next(); err != nil || event.Kind != fencepost.EventMissed {
		t.Fatalf("got %+v, %v", event, err)
	}
	must(t, lock.Release(testContext(t)))
	for released := false; !released; {
		event, err := watcher.Next()
		must(t, err)
		if event.Kind == fencepost.EventMissed {
			// The locks of the first server have another leader, and the release may be among what was missed.
			lock = acquire(t, other, "orders/42")
			must(t, lock.Release(testContext(t)))
		}
		released = event.Kind == fencepost.EventReleased && event.Token == lock.Token()
	}
}
